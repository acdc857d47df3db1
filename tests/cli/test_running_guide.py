"""docs/running.md agrees with the program."""

import re
import urllib.request
from pathlib import Path

from moorage.cli.main import VERBS
from moorage.server.settings import load, options
from moorage.testing.server import ServerProcess
from tests.cli.conftest import Moorage

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = (DOCS / "running.md").read_text()


def test_the_guide_lists_every_setting_with_its_default() -> None:
    expected = [
        f"| `{option.flag}` | `{option.variable}` | {'' if option.default is None else f'`{option.default}`'} "
        f"| {option.description} |"
        for option in options()
    ]
    assert [line for line in GUIDE.splitlines() if line.startswith("| `--")] == expected


def blocks(language: str, guide: str = GUIDE) -> list[str]:
    """The code blocks of a guide with this language. Blocks without one contain commands."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    return [text for name, text in found if name == language]


def test_the_settings_files_of_the_guide_are_valid(tmp_path: Path) -> None:
    for text in blocks("toml"):
        (tmp_path / "moorage.toml").write_text(text)
        assert load(config=tmp_path / "moorage.toml").s3 is not None


def test_every_command_in_the_guide_exists_with_its_flags(moorage: Moorage) -> None:
    access = (DOCS / "access.md").read_text()
    commands = [line.split() for text in (*blocks(""), *blocks("", access)) for line in text.splitlines()]
    run = {line.split()[1] for text in blocks("sh", access) for line in text.splitlines() if line.startswith("moorage")}
    assert {command[1] for command in commands} | run == set(VERBS) - {"up"}
    helps = {verb: moorage(verb, "--help").stdout for verb in VERBS}
    for command in commands:
        assert command[0] == "moorage"
        for flag in filter(lambda word: word.startswith("--"), command):
            assert re.search(rf"{flag}\b", helps[command[1]]), (command, flag)


def test_the_guide_names_every_metric_and_every_probe(catalog: ServerProcess) -> None:
    text = {}
    for path in ("/healthz", "/readyz", "/metrics"):
        assert f"`{path}`" in GUIDE
        with urllib.request.urlopen(catalog.url + path) as answer:
            text[path] = answer.read().decode()
    measured = set(re.findall(r"^# TYPE (moorage_\w+)", text["/metrics"], re.MULTILINE))
    assert measured
    assert {name for name in measured if f"`{name}`" not in GUIDE} == set()
