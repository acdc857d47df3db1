"""`moorage serve` prints nothing while it works, and one line and an exit code when it fails."""

import os
import pty
import re
import socket
import subprocess
from pathlib import Path

import pytest

from moorage.testing.server import COMMAND, ServerProcess, clean_environment
from tests.cli.conftest import Moorage


def test_a_catalog_prints_nothing_and_exits_with_zero(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as catalog:
        assert (catalog.stop(), catalog.output(), catalog.words()) == (0, "", "")


def test_on_a_terminal_the_url_is_the_only_line(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [*COMMAND, "serve", "--data", str(tmp_path / "data"), "--port", "0"]
    with subprocess.Popen(command, env=clean_environment(), stdout=theirs, stderr=subprocess.PIPE) as process:
        os.close(theirs)
        output = ""
        while "\n" not in output:
            output += os.read(ours, 1000).decode()
        process.terminate()
        assert process.wait(30) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""
    os.close(ours)
    assert re.fullmatch(r"Moorage is running at http://127\.0\.0\.1:\d+\r\n", output)


def test_a_second_catalog_on_the_same_folder_is_refused(
    moorage: Moorage, catalog: ServerProcess, tmp_path: Path
) -> None:
    refused = moorage("serve", "--data", tmp_path / "data", "--port", "0")
    assert refused.returncode == 1
    assert refused.stdout == ""
    assert f"another Moorage (process {catalog.pid}) is using the data folder" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_a_port_in_use_is_reported_and_no_data_folder_is_created(moorage: Moorage, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = moorage("serve", "--data", tmp_path / "data", "--port", port)
    assert refused.returncode == 1
    reason = "is in use by another process; stop it or choose another --port (MOORAGE_PORT)"
    assert refused.stderr == f"moorage: 127.0.0.1:{port} {reason}\n"
    assert not (tmp_path / "data").exists()


def test_a_catalog_without_authentication_refuses_to_listen_beyond_loopback(moorage: Moorage, tmp_path: Path) -> None:
    flags = ("--host", "0.0.0.0", "--public-url", "https://lake.example")
    refused = moorage("serve", "--data", tmp_path / "data", "--port", "0", *flags)
    assert refused.returncode == 2
    assert "refusing to listen on 0.0.0.0: authentication is off" in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("flags", "environment", "words"),
    [
        (["--prot", "1"], {}, "unrecognized arguments: --prot 1; see `moorage serve --help`"),
        (["--port", "many"], {}, "--port is 'many'; expected a port from 0 to 65535"),
        (["--port"], {}, "argument --port: expected one argument"),
        ([], {"MOORAGE_PORT": "99999"}, "MOORAGE_PORT is '99999'; expected a port from 0 to 65535"),
        ([], {"MOORAGE_PROT": "1"}, "MOORAGE_PROT is not a setting; did you mean MOORAGE_PORT?"),
        (["--log-level", "loud"], {}, "--log-level is 'loud'; expected debug, info, warning or error"),
        (["--database", "mysql://x/y"], {}, "--database is invalid; expected a postgresql:// URL"),
        (["--config", "nowhere.toml"], {}, "the settings file nowhere.toml cannot be read"),
    ],
)
def test_a_wrong_setting_is_reported_with_its_source(
    flags: list[str], environment: dict[str, str], words: str, moorage: Moorage, tmp_path: Path
) -> None:
    refused = moorage("serve", "--data", tmp_path / "data", *flags, **environment)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert words in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_a_wrong_value_in_the_settings_file_is_reported_with_the_path_of_the_file(
    moorage: Moorage, tmp_path: Path
) -> None:
    file = tmp_path / "moorage.toml"
    file.write_text("hold_days = 'a week'\n")
    refused = moorage("serve", "--data", tmp_path / "data", "--config", file)
    assert refused.returncode == 2
    assert f"hold_days in {file} is 'a week'; expected whole days from 0 to 3650" in refused.stderr


def test_flags_override_the_environment_and_the_settings_file(tmp_path: Path) -> None:
    file = tmp_path / "moorage.toml"
    file.write_text("port = 1\n")
    environment = {"MOORAGE_PORT": "2", "MOORAGE_CONFIG": str(file)}
    with ServerProcess(tmp_path / "data", environment=environment) as catalog:
        assert catalog.url.rpartition(":")[2] not in ("1", "2")


def test_an_unreachable_database_is_reported_in_one_line(moorage: Moorage, tmp_path: Path) -> None:
    flags = ("--port", "0", "--database", "postgresql://127.0.0.1:1/nothing")
    refused = moorage("serve", "--data", tmp_path / "data", *flags)
    assert refused.returncode == 1
    assert "the database: [Errno 111] Connection refused; check its address, the rights of" in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize("blocker", ["data", "data/managed"])
def test_a_file_in_place_of_a_folder_is_reported_in_one_line(moorage: Moorage, tmp_path: Path, blocker: str) -> None:
    file, data = tmp_path / blocker, tmp_path / "data"
    file.parent.mkdir(exist_ok=True)
    file.touch()
    refused = moorage("serve", "--data", data, "--port", "0")
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"moorage: cannot write to the data folder {data}: File exists; make it writable")
    assert refused.stderr.count("\n") == 1


def test_an_unknown_command_is_refused_and_help_lists_all_commands(moorage: Moorage) -> None:
    refused = moorage("sevre")
    assert (refused.returncode, refused.stderr) == (
        2,
        "moorage: unknown command `moorage sevre`; run `moorage --help` for a list of commands\n",
    )
    listed = moorage("--help").stdout
    for verb in ("up", "serve", "worker", "status", "feed", "backup", "restore", "move", "migrate"):
        assert f"\n  {verb} " in listed
        assert moorage(verb, "--help").stdout.startswith(f"usage: moorage {verb} ")
    assert moorage("--version").stdout.startswith("moorage 0.")
