"""Everything a fresh machine needs, step by step: `python3 -m scripts.setup [venv|tests|bench|peers]`.

Each step is done once and leaves a stamp; a second run touches no network and takes a moment.
A step that cannot be done says what is missing, why it is needed and how to install it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from scripts.machine import GO, JAVA, MAVEN, NODE, POSTGRES, WRK, installer, provide, refresh_package_lists
from scripts.steps import ROOT, TOOLS, Stamp, StepFailed, run, say

OASDIFF = "github.com/oasdiff/oasdiff@v1.30.0"
MINIO = "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c"
"""Its licence is the AGPL: the tests talk to it, and nothing that we ship does."""

LOCK = ROOT / "requirements.lock"
CLIENTS_LOCK = ROOT / "requirements-clients.lock"
"""Everything of the other lock, and the real clients that the tests run."""
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
UV_PROGRAM = VENV / "bin" / "uv"
DISTRIBUTION_PYTHON = "/usr/bin/python3"
WILL_DO = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))"


def venv() -> None:
    """The package, its locked dependencies and the developers' tools in .venv."""
    uv()
    stamp = Stamp(VENV / ".installed", LOCK, ROOT / "pyproject.toml")
    if stamp.is_current():
        return
    say("Installing the locked packages into .venv")
    # Who has the clients keeps them: a new line in pyproject.toml is no reason to install Spark again.
    lock = CLIENTS_LOCK if (VENV / ".clients").exists() else LOCK
    run(UV_PROGRAM, "pip", "sync", "--python", VENV_PYTHON, "--require-hashes", lock)
    # Without build isolation the backend is the locked one, not a fresh download.
    run(UV_PROGRAM, "pip", "install", "--python", VENV_PYTHON, "--no-deps", "--no-build-isolation", "-e", ROOT)
    stamp.leave()


def clients() -> None:
    """Spark, DuckDB, LanceDB: what the tests point at a real server."""
    stamp = Stamp(VENV / ".clients", CLIENTS_LOCK, VENV / ".installed")
    if stamp.is_current():
        return
    say("Installing the clients of the tests (about two minutes, half of it Spark)")
    run(UV_PROGRAM, "pip", "install", "--python", VENV_PYTHON, "--require-hashes", "-r", CLIENTS_LOCK)
    stamp.leave()


def uv() -> None:
    """A virtual environment that holds the locked uv."""
    # The root is an input because a virtual environment does not survive being moved.
    stamp = Stamp(VENV / ".made", str(ROOT), locked("uv"))
    if stamp.is_current() and VENV_PYTHON.exists():
        return
    python = interpreter()
    say(f"Making .venv with {python}")
    make_venv(python)
    install_uv()
    stamp.leave()


def interpreter() -> str:
    """The Python of .venv: the one that PYTHON=... asks for, else the distribution's where it will do.

    Distributions build theirs with profile-guided optimisation; others often do not (pyenv must be told to), and a
    plain build costs a third more CPU for each request.
    """
    if "PYTHON" in os.environ or not Path(DISTRIBUTION_PYTHON).exists():
        return sys.executable
    tried = subprocess.run([DISTRIBUTION_PYTHON, "-c", WILL_DO], check=False, capture_output=True)
    return sys.executable if tried.returncode else DISTRIBUTION_PYTHON


def make_venv(python: str) -> None:
    command = (python, "-m", "venv", "--clear", str(VENV))
    try:
        run(*command)
    except StepFailed:
        # Debian ships Python without the part that puts pip into a virtual environment.
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        install = installer()
        if install is None:
            raise StepFailed(
                f"missing: Python's venv module; needed because everything is installed into .venv; "
                f"install it with: apt-get install {package}"
            ) from None
        say(f"Installing {package}: everything is installed into .venv")
        refresh_package_lists(install)
        run(*install, "install", "-y", package)
        run(*command)


def install_uv() -> None:
    # pip reads hashes from a file only, and refuses one that holds more than it is asked to install.
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as wanted:
        wanted.write(locked("uv"))
        wanted.flush()
        run(VENV_PYTHON, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", Path(wanted.name))


def locked(package: str) -> str:
    """A package's entry in the lock, with its hashes."""
    lines = LOCK.read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"{package}=="))
    end = next(number for number in range(start, len(lines)) if not lines[number].endswith("\\"))
    return "\n".join(lines[start : end + 1]) + "\n"


def postgres() -> None:
    provide(POSTGRES)


def java() -> None:
    provide(JAVA)


def iceberg_kit() -> None:
    """Iceberg's REST compatibility kit with all its jars, in .tools/rck."""
    pom, jars = ROOT / "tests" / "conformance" / "rck" / "pom.xml", TOOLS / "rck"
    fetch_jars(pom, jars, "Fetching Iceberg's compatibility kit")


def spark_jars() -> None:
    """Delta's and Iceberg's jars for Spark, in .tools/spark-jars."""
    pom, jars = ROOT / "tests" / "conformance" / "spark" / "pom.xml", TOOLS / "spark-jars"
    fetch_jars(pom, jars, "Fetching the jars of Delta and Iceberg for Spark")


def peer_jars() -> None:
    """Iceberg's own REST server, in .tools/peers."""
    fetch_jars(ROOT / "bench" / "peers" / "pom.xml", TOOLS / "peers", "Fetching Iceberg's own server")


def fetch_jars(pom: Path, jars: Path, words: str) -> None:
    stamp = Stamp(jars.with_suffix(".stamp"), pom)
    if stamp.is_current() and jars.is_dir():
        return
    java()
    maven = provide(MAVEN)
    say(f"{words} (about a minute)")
    shutil.rmtree(jars, ignore_errors=True)
    run(maven, "-q", "-B", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={jars}")
    stamp.leave()


def wrk() -> None:
    provide(WRK)


def oasdiff() -> None:
    """The program that tells an additive API change from a breaking one, in .tools."""
    build("oasdiff", OASDIFF, "about a minute")


def minio() -> None:
    """A real S3 server, in .tools."""
    build("minio", MINIO, "about five minutes")


def build(program: str, module: str, how_long: str) -> None:
    """A program that is written in Go, in .tools."""
    stamp = Stamp(TOOLS / f"{program}.stamp", module)
    if stamp.is_current() and (TOOLS / program).exists():
        return
    go = provide(GO)
    say(f"Building {program} ({how_long})")
    settings = {"CGO_ENABLED": "0", "GOBIN": str(TOOLS)}
    run(go, "install", "-trimpath", "-ldflags", "-s -w", module, env={**os.environ, **settings})
    stamp.leave()


def openapi_tools() -> None:
    """The linter and the client generator of openapi/, in openapi/tools/node_modules."""
    folder = ROOT / "openapi" / "tools"
    stamp = Stamp(folder / "node_modules" / ".stamp", folder / "package-lock.json")
    provide(NODE)
    if stamp.is_current():
        return
    say("Installing the OpenAPI tools (about half a minute)")
    # No package here needs an install script, so none may run one.
    run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=folder)
    stamp.leave()


Step = Callable[[], None]
TESTS: tuple[Step, ...] = (venv, clients, postgres, java, openapi_tools, oasdiff, minio, iceberg_kit, spark_jars)
GOALS: dict[str, tuple[Step, ...]] = {
    "venv": (venv,),
    "tests": TESTS,
    "bench": (venv, postgres, wrk),
    "peers": (venv, postgres, java, peer_jars),
    "everything": (*TESTS, wrk),
}


def reach(goal: str) -> list[str]:
    """Do every step of a goal that can be done; the lines say what could not."""
    failures = []
    for step in GOALS[goal]:
        try:
            step()
        except StepFailed as failure:
            failures.append(str(failure))
    return failures


def main() -> int:
    goal = sys.argv[1] if len(sys.argv) > 1 else "everything"
    TOOLS.mkdir(exist_ok=True)
    # Two makes at once must not install into one folder together.
    with (TOOLS / "setup.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        failures = reach(goal)
    for line in failures:
        say(f"  {line}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
