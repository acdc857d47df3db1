"""Installs everything that a fresh machine needs: `python3 -m scripts.setup [venv|tests|judges|bench|peers]`.

Each step runs once and writes a stamp file. A second run uses no network and takes a moment.
A step that fails reports what is missing, why it is needed and how to install it.
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

from scripts.machine import CHROMIUM, GO, JAVA, MAVEN, NODE, POSTGRES, WRK, installer, provide, refresh_package_lists
from scripts.steps import ROOT, TOOLS, Stamp, StepFailed, run, say

OASDIFF = "github.com/oasdiff/oasdiff@v1.30.0"
MINIO = "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c"
"""Its licence is the AGPL. Only the tests use it; nothing that we ship does."""
FAKE_GCS = "github.com/fsouza/fake-gcs-server@v1.56.1"

LOCK = ROOT / "requirements.lock"
CLIENTS_LOCK = ROOT / "requirements-clients.lock"
"""Contains everything in LOCK, and the real clients that the tests run."""
JUDGES_LOCK = ROOT / "requirements-judges.lock"
"""Clients that do not fit into one environment with the others of the tests."""
OPENAPI_TOOLS = ROOT / "openapi" / "tools"
AZURITE = ROOT / "tests" / "contract" / "azurite"
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
UV_PROGRAM = VENV / "bin" / "uv"
DISTRIBUTION_PYTHON = "/usr/bin/python3"
WILL_DO = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))"


def venv() -> None:
    """Installs the package, its locked dependencies and the development tools into .venv."""
    uv()
    stamp = Stamp(VENV / ".installed", LOCK, ROOT / "pyproject.toml")
    if stamp.is_current():
        return
    say("Installing the locked packages into .venv")
    # If the clients are installed, keep them: a new line in pyproject.toml must not cause Spark to be installed again.
    lock = CLIENTS_LOCK if (VENV / ".clients").exists() else LOCK
    run(UV_PROGRAM, "pip", "sync", "--python", VENV_PYTHON, "--require-hashes", lock)
    # Without build isolation, the locked build backend is used instead of a fresh download.
    run(UV_PROGRAM, "pip", "install", "--python", VENV_PYTHON, "--no-deps", "--no-build-isolation", "-e", ROOT)
    stamp.leave()


def clients() -> None:
    """Installs the clients that the tests run against a real server: Spark, DuckDB, LanceDB, a browser's driver."""
    stamp = Stamp(VENV / ".clients", CLIENTS_LOCK, VENV / ".installed")
    if stamp.is_current():
        return
    say("Installing the clients for the tests (about two minutes, half of it for Spark)")
    # The lock is complete, and it overrides versions that a client excludes without need.
    run(UV_PROGRAM, "pip", "install", "--python", VENV_PYTHON, "--no-deps", "--require-hashes", "-r", CLIENTS_LOCK)
    stamp.leave()


def spark() -> None:
    """Installs Spark for the worker of `make up`, while the server runs already: half a gigabyte, then its jars."""
    if JAVA.find() is None:
        return  # `moorage up` names the command that installs Java, and runs without Spark
    packages = ("pyspark", "py4j", "grpcio", "grpcio-status", "pandas", "sqlglot")
    stamp = Stamp(VENV / ".spark", *(locked(name, CLIENTS_LOCK) for name in packages))
    if not stamp.is_current() and not (VENV / ".clients").exists():
        say("Installing Spark in the background (about a minute)")
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("".join(locked(name, CLIENTS_LOCK) for name in packages))
            file.flush()
            run(UV_PROGRAM, "pip", "install", "--python", VENV_PYTHON, "--require-hashes", "--no-deps", "-r", file.name)
    fetch = "from moorage.client.spark import fetch_jars; fetch_jars()"
    run(VENV_PYTHON, "-c", fetch)
    stamp.leave()


def judges() -> None:
    """Installs the clients that need an environment of their own into .tools/judges: daft, MLflow, unitycatalog-ai."""
    folder = TOOLS / "judges"
    stamp = Stamp(folder / ".installed", JUDGES_LOCK, str(ROOT))
    if stamp.is_current():
        return
    say("Installing daft, MLflow and unitycatalog-ai (about a minute)")
    run(UV_PROGRAM, "venv", "--quiet", "--clear", "--python", VENV_PYTHON, folder)
    run(UV_PROGRAM, "pip", "sync", "--python", folder / "bin" / "python", "--require-hashes", JUDGES_LOCK)
    stamp.leave()


def pyiceberg_suite() -> None:
    """Fetches the source of PyIceberg with its own tests into .tools/pyiceberg."""
    wanted, folder = locked("pyiceberg", JUDGES_LOCK), TOOLS / "pyiceberg"
    stamp = Stamp(folder / ".fetched", wanted)
    if stamp.is_current():
        return
    say("Fetching PyIceberg's own tests")
    shutil.rmtree(folder, ignore_errors=True)
    # pip reads the metadata of a source with its build backend. Without build isolation, that is the locked one.
    python = ("--python", TOOLS / "judges" / "bin" / "python")
    source = ("--no-deps", "--no-binary", "pyiceberg", "--no-build-isolation", "--dest", folder)
    pip(wanted, *python, "download", *source)
    (archive,) = folder.glob("*.tar.gz")
    shutil.unpack_archive(archive, folder, filter="data")
    stamp.leave()


def uv() -> None:
    """Creates a virtual environment that contains the locked uv."""
    # The root is an input, because a virtual environment breaks when it is moved.
    stamp = Stamp(VENV / ".made", str(ROOT), locked("uv"))
    if stamp.is_current() and VENV_PYTHON.exists():
        return
    if VENV.is_symlink():  # for example in a second worktree: it would be emptied for its owner too
        raise StepFailed(f".venv is a link to the environment of another checkout; remove it: rm {VENV}")
    python = interpreter()
    say(f"Creating .venv with {python}")
    make_venv(python)
    install_uv()
    stamp.leave()


def interpreter() -> str:
    """Returns the Python for .venv: the one given by PYTHON=..., else the distribution's if it is usable.

    Distributions build Python with profile-guided optimisation. Other builds often lack it (it is not pyenv's default),
    and then need a third more CPU for each request.
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
        # Debian packages the part of Python that installs pip into a virtual environment separately.
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
    pip(locked("uv"), "install")


def pip(wanted: str, *command: str | Path) -> None:
    """Runs a command of pip for one entry of a lock."""
    # pip reads hashes only from a requirements file, and uses everything in it, so the file has only this entry.
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(wanted)
        file.flush()
        run(VENV_PYTHON, "-m", "pip", *command, "--quiet", "--require-hashes", "-r", Path(file.name))


def locked(package: str, lock: Path = LOCK) -> str:
    """Returns a package's entry in a lock, with its hashes."""
    lines = lock.read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"{package}=="))
    end = next(number for number in range(start, len(lines)) if not lines[number].endswith("\\"))
    return "\n".join(lines[start : end + 1]) + "\n"


def postgres() -> None:
    provide(POSTGRES)


def java() -> None:
    provide(JAVA)


def chromium() -> None:
    provide(CHROMIUM)


def iceberg_kit() -> None:
    """Fetches Iceberg's REST compatibility kit with all its jars into .tools/rck."""
    pom, jars = ROOT / "tests" / "conformance" / "rck" / "pom.xml", TOOLS / "rck"
    fetch_jars(pom, jars, "Fetching Iceberg's compatibility kit")


def spark_jars() -> None:
    """Copies the jars that Moorage pins for Spark into .tools/spark-jars: the tests run what users run."""
    jars = TOOLS / "spark-jars"
    stamp = Stamp(jars.with_suffix(".stamp"), ROOT / "src" / "moorage" / "client" / "spark" / "jars.py")
    if stamp.is_current() and jars.is_dir():
        return
    java()
    say("Fetching Delta's, Iceberg's and Hadoop's jars for Spark (about a minute)")
    shutil.rmtree(jars, ignore_errors=True)
    copy = "shutil.copytree(fetch_jars()[0].parent, sys.argv[1])"
    run(VENV_PYTHON, "-c", f"import shutil, sys; from moorage.client.spark import fetch_jars; {copy}", jars)
    stamp.leave()


def peer_jars() -> None:
    """Fetches Iceberg's own REST server into .tools/peers."""
    fetch_jars(ROOT / "bench" / "peers" / "pom.xml", TOOLS / "peers", "Fetching Iceberg's own server")


def fetch_jars(pom: Path, jars: Path, message: str) -> None:
    stamp = Stamp(jars.with_suffix(".stamp"), pom)
    if stamp.is_current() and jars.is_dir():
        return
    java()
    maven = provide(MAVEN)
    say(f"{message} (about a minute)")
    shutil.rmtree(jars, ignore_errors=True)
    run(maven, "-q", "-B", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={jars}")
    stamp.leave()


def wrk() -> None:
    provide(WRK)


def oasdiff() -> None:
    """Builds oasdiff, which distinguishes additive from breaking API changes, into .tools."""
    build("oasdiff", OASDIFF, "about a minute")


def minio() -> None:
    """Builds MinIO, a real S3 server, into .tools."""
    build("minio", MINIO, "about five minutes")


def fake_gcs() -> None:
    """Builds a server of Google Cloud's storage API into .tools."""
    build("fake-gcs-server", FAKE_GCS, "about five minutes")


def iceberg_go() -> None:
    """Builds the judge of iceberg-go into .tools."""
    folder, program = ROOT / "tests" / "judges" / "iceberg-go", TOOLS / "judge-iceberg-go"
    stamp = Stamp(program.with_suffix(".stamp"), *sorted(path for path in folder.iterdir() if path.is_file()))
    if stamp.is_current() and program.exists():
        return
    go = provide(GO)
    say("Building a program with iceberg-go (about five minutes the first time)")
    settings = {"CGO_ENABLED": "0"}
    run(go, "build", "-trimpath", "-ldflags", "-s -w", "-o", program, cwd=folder, env={**os.environ, **settings})
    stamp.leave()


def build(program: str, module: str, how_long: str) -> None:
    """Builds a Go program into .tools."""
    stamp = Stamp(TOOLS / f"{program}.stamp", module)
    if stamp.is_current() and (TOOLS / program).exists():
        return
    go = provide(GO)
    say(f"Building {program} ({how_long})")
    settings = {"CGO_ENABLED": "0", "GOBIN": str(TOOLS)}
    run(go, "install", "-trimpath", "-ldflags", "-s -w", module, env={**os.environ, **settings})
    stamp.leave()


def openapi_tools() -> None:
    """Installs the linter and the client generator for openapi/ into openapi/tools/node_modules."""
    install_node_packages(OPENAPI_TOOLS, "Installing the OpenAPI tools (about half a minute)")


def azurite() -> None:
    """Installs Azurite, a server of Azure's storage API, into tests/contract/azurite/node_modules."""
    install_node_packages(AZURITE, "Installing Azurite (about half a minute)")


def install_node_packages(folder: Path, message: str) -> None:
    stamp = Stamp(folder / "node_modules" / ".stamp", folder / "package-lock.json")
    provide(NODE)
    if stamp.is_current():
        return
    say(message)
    # No package here needs an install script, so install scripts are disabled.
    run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=folder)
    stamp.leave()


Step = Callable[[], None]
TESTS: tuple[Step, ...] = (
    venv,
    clients,
    judges,
    postgres,
    java,
    chromium,
    openapi_tools,
    oasdiff,
    minio,
    azurite,
    fake_gcs,
    iceberg_go,
    iceberg_kit,
    spark_jars,
)
GOALS: dict[str, tuple[Step, ...]] = {
    "venv": (venv,),
    "spark": (spark,),
    "tests": TESTS,
    "judges": (*TESTS, pyiceberg_suite),
    "bench": (venv, postgres, wrk),
    "peers": (venv, postgres, java, peer_jars),
    "everything": (*TESTS, wrk),
}


def reach(goal: str) -> list[str]:
    """Runs every step of a goal, and returns one line for each step that failed."""
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
    # Two concurrent runs of make must not install into one folder at the same time.
    with (TOOLS / "setup.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        failures = reach(goal)
    for line in failures:
        say(f"  {line}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
