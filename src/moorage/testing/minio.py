"""A temporary S3 server: MinIO, as `make setup` builds it, with its objects in a folder of the caller."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Self
from uuid import uuid4

from moorage.storage.s3_account import S3Account, S3Key
from moorage.storage.sigv4 import amz_date, authorization, host_of
from moorage.testing.postgres import free_port

PROGRAM = Path(__file__).parents[3] / ".tools" / "minio"
PATIENCE_SECONDS = 60.0
REGION = "eu-north-1"
"""Not the region that clients use by default."""
USER, PASSWORD = "moorage-user", "moorage-secret-word"
KEY = S3Key(access_key_id=USER, secret_access_key=PASSWORD)
DIE_WITH_PARENT = (
    sys.executable,
    "-c",
    "import ctypes, os, sys; sys.platform == 'linux' and ctypes.CDLL(None).prctl(1, 9); "
    "os.execv(sys.argv[1], sys.argv[1:])",
)
"""Linux kills the process when the tests end, even if they are killed. This is no preexec_fn: pylance forbids those."""

_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class MinioServer:
    """A running server. Use it as a context manager. It is killed at the end, even if the tests are killed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def account(self, *locations: str) -> S3Account:
        """Return an account with the root key of the server."""
        return S3Account(
            endpoint=self.endpoint,
            region=REGION,
            key=KEY,
            path_style=True,
            locations=locations,
        )

    def settings(self, *locations: str) -> dict[str, str]:
        """Return the environment variables of a Moorage server that may use these locations."""
        return {
            "MOORAGE_S3_LOCATIONS": ",".join(locations),
            "MOORAGE_S3_ENDPOINT": self.endpoint,
            "MOORAGE_S3_REGION": REGION,
            "MOORAGE_S3_ACCESS_KEY_ID": USER,
            "MOORAGE_S3_SECRET_ACCESS_KEY": PASSWORD,
            "MOORAGE_S3_PATH_STYLE": "true",
        }

    def new_bucket(self) -> str:
        """Create an empty bucket and return its name."""
        bucket = f"b{uuid4().hex[:12]}"
        uri = f"{self.endpoint}/{bucket}"
        headers = {
            "host": host_of(uri),
            "x-amz-date": amz_date(time.time_ns() // 1_000_000),
            "x-amz-content-sha256": hashlib.sha256(b"").hexdigest(),
        }
        proof = authorization("PUT", uri, headers, key=KEY, region=REGION)
        request = urllib.request.Request(uri, method="PUT", headers={**headers, "authorization": proof})
        with _direct.open(request, timeout=PATIENCE_SECONDS):
            return bucket

    def start(self) -> Self:
        """Start the server and wait until it responds. After `stop`, it has the same address and objects."""
        if not PROGRAM.exists():
            raise FileNotFoundError("MinIO is not built; run `make setup`")
        with (self._folder / "minio.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *DIE_WITH_PARENT,
                    PROGRAM,
                    "server",
                    self._folder / "objects",
                    "--address",
                    f"127.0.0.1:{self.port}",
                    "--quiet",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={
                    **os.environ,
                    "MINIO_ROOT_USER": USER,
                    "MINIO_ROOT_PASSWORD": PASSWORD,
                    "MINIO_REGION": REGION,
                    "MINIO_BROWSER": "off",
                    "MINIO_UPDATE": "off",
                },
            )
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._is_ready():
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise AssertionError(f"MinIO did not start; its log:\n{(self._folder / 'minio.log').read_text()}")
            time.sleep(0.05)
        return self

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _is_ready(self) -> bool:
        with contextlib.suppress(OSError), _direct.open(f"{self.endpoint}/minio/health/cluster", timeout=5) as answer:
            return bool(answer.status == 200)
        return False
