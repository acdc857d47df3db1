"""The commands and programs of the documentation, and the servers on which they run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from moorage.testing.minio import MinioServer
from moorage.testing.server import ServerProcess
from tests.conformance.ducks import install
from tests.conformance.lakes import lake_server, s3_lake_server, send_request

ROOT = Path(__file__).parents[2]
CLIENT_PAGES = sorted((ROOT / "docs" / "clients").glob("*.md"))
JUDGED = {"daft.md", "iceberg-go.md", "mlflow.md"}
"""The pages whose snippets need another Python or Go. `make judges` runs them."""

BLOCK = re.compile(
    r"^## (?P<section>[^\n]*)$|^```(?P<language>sh|python|go)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
PACKAGES = re.compile(r'"spark\.jars\.packages",\s*"[^"]*"')
GO_MODULE = ROOT / "tests" / "judges" / "iceberg-go"
TIMEOUT_SECONDS = 300


@dataclass(frozen=True)
class Snippet:
    """A block marked as `sh`, `python` or `go`. Blocks without a language are not run."""

    language: str
    text: str
    section: str


def snippets(page: Path) -> Iterator[Snippet]:
    """The snippets of a page in order, each with the heading above it."""
    section = ""
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        if block["section"] is not None:
            section = block["section"]
        else:
            yield Snippet(block["language"], block["text"], section)


@dataclass(frozen=True)
class Site:
    """What the examples of the client pages assume: servers with the catalog `lake` and the schema `sales`.

    A snippet in the section `S3` runs on the server whose tables are in the object store.
    """

    folder: Path
    local: ServerProcess
    s3: ServerProcess
    store: str
    bucket: str
    python: str

    @classmethod
    @contextmanager
    def open(cls, minio: MinioServer | None = None, python: str = sys.executable) -> Iterator[Site]:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="snippets-")))
            for name in ("minio", "lakes"):
                (folder / name).mkdir()
            install(folder / "home")
            store = minio or stack.enter_context(MinioServer(folder / "minio"))
            bucket = store.new_bucket()
            local = stack.enter_context(lake_server(folder / "local", ("--external-folder", str(folder / "lakes"))))
            s3 = stack.enter_context(s3_lake_server(folder / "s3", store, f"s3://{bucket}/moorage/"))
            for server in (local, s3):
                send_request(server, "POST", "/api/moorage/v1/catalogs/lake/namespaces", json={"path": ["sales"]})
            yield cls(folder, local, s3, store.endpoint, bucket, python)

    def run(self, snippet: Snippet) -> subprocess.CompletedProcess[str]:
        url = (self.s3 if snippet.section == "S3" else self.local).url
        names = {
            "127.0.0.1:9000": self.store.removeprefix("http://"),
            "s3://lake/": f"s3://{self.bucket}/",
            "/srv/lakes": str(self.folder / "lakes"),
        }
        text = snippet.text
        for example, actual in names.items():
            text = text.replace(example, actual)
        return run(snippet.language, text, url, self.folder / "home", self.python)


def run(
    language: str, text: str, url: str, home: Path, python: str = sys.executable, *, token: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a snippet against a server."""
    text = text.replace("http://127.0.0.1:8080", url).replace(".venv/bin/", f"{Path(python).parent}/")
    # The tests have the jars already, and download nothing.
    jars = ",".join(str(jar) for jar in sorted((ROOT / ".tools" / "spark-jars").glob("*.jar")))
    text = PACKAGES.sub(f'"spark.jars", "{jars}"', text)
    environment = {
        "MOORAGE_URL": url,
        "MOORAGE_TOKEN": token,
        "PATH": f"{Path(python).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "no_proxy": "127.0.0.1",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "MOORAGE_SPARK_JARS": str(ROOT / ".tools" / "spark-jars"),
        # MLflow's small package has no other store for runs.
        "MLFLOW_ALLOW_FILE_STORE": "true",
        "MLFLOW_TRACKING_URI": f"file://{home}/runs",
    }
    if language == "go":
        return run_go(text, environment, home)
    command = ["bash", "-euo", "pipefail", "-c", text] if language == "sh" else [python, "-c", text]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=home, env=environment, timeout=TIMEOUT_SECONDS, check=False
    )


def run_go(text: str, environment: dict[str, str], home: Path) -> subprocess.CompletedProcess[str]:
    program = home / "main.go"
    program.write_text(text)
    # Go keeps what it has built in the home folder, or where the machine's settings say.
    of_machine = {name: value for name, value in os.environ.items() if name.startswith("GO")}
    found = {"HOME": str(Path.home()), "PATH": f"{os.environ['PATH']}:/usr/local/go/bin"}
    settings = {**environment, **of_machine, **found}
    return subprocess.run(
        ["go", "run", program],
        capture_output=True,
        text=True,
        cwd=GO_MODULE,
        env={**settings, "CGO_ENABLED": "0"},
        timeout=2 * TIMEOUT_SECONDS,
        check=False,
    )


def failure_of(page: Path, site: Site) -> str | None:
    """Run the snippets of a page in order, and describe the first that fails or prints nothing."""
    for snippet in snippets(page):
        done = site.run(snippet)
        if done.returncode:
            return f"{snippet.text}\nexited with {done.returncode}:\n{done.stdout}{done.stderr}"
        if not done.stdout:
            return f"{snippet.text}\nprinted nothing"
    return None
