"""Fuzz the running server: every response matches the OpenAPI files, and none is a server error."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contract_api.contract_files import CURRENT, parsed

BIN = Path(sys.executable).parent

# The server may reject valid JSON (a page token that it did not issue), and `Allow` at the path of a custom method
# also lists the methods for an object whose name ends like it.
EXCLUDED_CHECKS = "positive_data_acceptance,unsupported_method,allow_header_conformance"
# Iceberg's namespaces are lists in a response and encoded strings in a path. The tool does not know this.
EXCLUDED_CHECKS_FOR = {"iceberg.yaml": f"{EXCLUDED_CHECKS},ensure_resource_availability"}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data = tmp_path_factory.mktemp("data")
    log = (data / "log").open("w")
    process = subprocess.Popen(
        [str(BIN / "moorage"), "serve", "--data", str(data), "--port", str(port)], stderr=log, stdout=log
    )
    address = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 20
    while not _is_ready(address):
        assert process.poll() is None, (data / "log").read_text()
        assert time.monotonic() < deadline, "the server did not become ready"
        time.sleep(0.05)
    yield address
    process.terminate()
    assert process.wait(timeout=40) == 0
    log.close()
    assert (data / "log").read_text() == ""


def _is_ready(address: str) -> bool:
    try:
        return httpx.get(f"{address}/readyz", timeout=60).status_code == 200
    except httpx.TransportError:
        return False


def without_untestable_parts(document: dict[str, Any]) -> dict[str, Any]:
    """Remove what cannot be tested here: tokens, which the server does not require, waiting, and endless streams."""
    for path, item in list(document["paths"].items()):
        for operation in item.values():
            operation.pop("security")
            kept = [each for each in operation.get("parameters", []) if each["name"] != "wait_seconds"]
            operation["parameters"] = kept
            for kind, taken in list(operation.get("requestBody", {}).get("content", {}).items()):
                if kind != "application/json":  # the tool can generate bytes, but not Arrow
                    operation["requestBody"]["content"] = {"application/octet-stream": taken}
            if "text/event-stream" in operation["responses"].get("200", {}).get("content", {}):
                document["paths"].pop(path)
    return document


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("file", CURRENT, ids=[path.name for path in CURRENT])
def test_every_response_to_a_fuzzed_request_matches_the_file(file: Path, url: str, tmp_path: Path) -> None:
    (tmp_path / file.name).write_text(json.dumps(without_untestable_parts(parsed(file))))
    soak = os.environ.get("MOORAGE_SOAK")
    effort = ("--max-examples", "300") if soak else ("--max-examples", "12", "--seed", "1")
    fuzzed = subprocess.run(
        [
            *(
                str(BIN / "schemathesis"),
                "run",
                str(tmp_path / file.name),
                "--url",
                url,
                "--no-color",
                # A path with four names is filtered often: each of them must not be empty and must not be a dot.
                "--suppress-health-check=filter_too_much",
                "--warnings",
                "off",
            ),
            *("--exclude-checks", EXCLUDED_CHECKS_FOR.get(file.name, EXCLUDED_CHECKS), "--workers", "1", *effort),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert fuzzed.returncode == 0, fuzzed.stdout + fuzzed.stderr
