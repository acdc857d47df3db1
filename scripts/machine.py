"""Finds the system programs that the project needs, installs them if permitted, or reports how to install them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from scripts.steps import TOOLS, StepFailed, run, say


@dataclass(frozen=True)
class Need:
    """A system program: how to find it, why it is needed, and how to install it."""

    name: str
    why: str
    find: Callable[[], Path | None]
    packages: tuple[str, ...]
    by_hand: str
    version_command: tuple[str, ...] = ("--version",)
    at_least: tuple[int, ...] = ()


def find_postgres() -> Path | None:
    """Returns the initdb of the newest installed server. Debian does not put the servers on the PATH."""
    versions = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    by_version = sorted(versions, key=lambda path: float(path.parent.parent.name))
    return by_version[-1] if by_version else find_on_path("initdb")


def find_on_path(program: str) -> Path | None:
    """Returns the program from the PATH, or from the folder into which Go's own archive is unpacked."""
    found = shutil.which(program) or shutil.which(program, path="/usr/local/go/bin")
    return Path(found) if found else None


POSTGRES = Need(
    name="PostgreSQL server, 15 or newer",
    why="the tests run the ledger on a real server",
    find=find_postgres,
    packages=("postgresql",),
    by_hand="apt-get install postgresql",
    at_least=(15,),
)
JAVA = Need(
    name="Java runtime, 17 or newer",
    why="Spark, a client of the catalog, needs it",
    find=lambda: find_on_path("java"),
    packages=("openjdk-17-jre-headless",),
    by_hand="apt-get install openjdk-17-jre-headless",
    version_command=("-version",),
    at_least=(17,),
)
MAVEN = Need(
    name="Maven",
    why="it fetches Iceberg's own compatibility kit, which the tests run",
    find=lambda: find_on_path("mvn"),
    packages=("maven",),
    by_hand="apt-get install maven",
)
NODE = Need(
    name="Node.js, 20 or newer, with npm",
    why="it lints the files under openapi/ and compiles a client from each",
    find=lambda: find_on_path("npm") and find_on_path("node"),
    packages=("nodejs", "npm"),
    by_hand="apt-get install nodejs npm  (if that is older than 20: the installer from nodejs.org)",
    at_least=(20,),
)
GO = Need(
    name="Go compiler, 1.21 or newer",
    why="it builds oasdiff, which compares openapi/ with the last release, and MinIO, which the tests store files in",
    find=lambda: find_on_path("go"),
    packages=("golang-go",),
    by_hand="apt-get install golang-go  (if that is older than 1.21: the archive from go.dev)",
    version_command=("version",),
    at_least=(1, 21),
)
CHROMIUM = Need(
    name="Chromium",
    why="the tests open the pages of the server in a real browser",
    find=lambda: find_on_path("chromium"),
    packages=("chromium",),
    by_hand="apt-get install chromium",
)
WRK = Need(
    name="wrk",
    why="`make bench` loads the server with it",
    find=lambda: find_on_path("wrk"),
    packages=("wrk",),
    by_hand="apt-get install wrk",
    version_command=("-v",),
)


def provide(need: Need) -> Path:
    """Returns the program's path, after installing it if it was missing or too old."""
    found = need.find()
    if found and is_new_enough(need, found):
        return found
    if install := installer():
        say(f"Installing {need.name}: {need.why}")
        refresh_package_lists(install)
        run(*install, "install", "-y", "--no-install-recommends", *need.packages)
        found = need.find()
        if found and is_new_enough(need, found):
            return found
    raise StepFailed(f"missing: {need.name}; needed because {need.why}; install it with: {need.by_hand}")


def is_new_enough(need: Need, program: Path) -> bool:
    # A JVM takes a third of a second to print its version, so the result is cached until the file changes.
    resolved = program.resolve()
    identity = f"{resolved} {resolved.stat().st_mtime_ns} {need.at_least}"
    stamp = TOOLS / f"{program.name}.seen"
    if stamp.is_file() and stamp.read_text() == identity:
        return True
    answer = subprocess.run([program, *need.version_command], capture_output=True, text=True, check=False)
    number = re.search(r"\d+(\.\d+)*", answer.stdout + answer.stderr)
    if number is None or tuple(map(int, number[0].split("."))) < need.at_least:
        return False
    TOOLS.mkdir(exist_ok=True)
    stamp.write_text(identity)
    return True


@cache
def installer() -> tuple[str, ...] | None:
    """Returns the package installer, if it can run without a password prompt."""
    if shutil.which("apt-get") is None:
        return None
    apt = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q")
    if os.geteuid() == 0:
        return apt
    sudo = ("sudo", "-n")
    allowed = shutil.which("sudo") and subprocess.run([*sudo, "true"], capture_output=True, check=False)
    return (*sudo, *apt) if allowed and allowed.returncode == 0 else None


@cache
def refresh_package_lists(install: tuple[str, ...]) -> None:
    # A fresh container has no package lists, and stale lists name packages that no longer exist.
    run(*install, "update")
