"""What every judge shares: where it works, which capabilities it is asked for, and how it reports them.

This module runs in the environment of each client, so it imports only the standard library.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

CAPABILITIES = ("create", "append", "read", "time_travel", "evolve", "delete", "drop")

ROWS: dict[str, list[Any]] = {"id": [1, 2, 3], "city": ["Oslo", "Rome", "Kyiv"]}
"""What `create` or `append` writes first."""
MORE: dict[str, list[Any]] = {"id": [4], "city": ["Bonn"]}
"""What `append` writes after that."""


@dataclass(frozen=True)
class S3Key:
    """A client's own key to the object store."""

    access_key_id: str
    secret_access_key: str


@dataclass(frozen=True)
class Place:
    """Where a judge works: a server, a namespace of its own in the catalog `lake`, and a folder for external tables.

    If the tables are in an object store, `endpoint` and `region` are set. A client with a `key` uses it there. A client
    without one uses what the server vends.
    """

    url: str
    namespace: str
    folder: str
    endpoint: str = ""
    region: str = ""
    key: S3Key | None = None

    def to_environment(self) -> dict[str, str]:
        key = vars(self.key) if self.key else None
        return {"JUDGE_PLACE": json.dumps({**vars(self), "key": key})}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Place:
        values = json.loads(environment["JUDGE_PLACE"])
        return cls(**{**values, "key": S3Key(**values["key"]) if values["key"] else None})

    @property
    def is_local(self) -> bool:
        return not self.endpoint


def attempt(step: Callable[[], None] | None) -> str:
    """Return `ok`, `-` if the client does not offer the capability, or the reason why it failed, in one line."""
    if step is None:
        return "-"
    try:
        step()
    except Exception as failure:  # noqa: BLE001 - a judge reports whatever its client raises
        return f"{type(failure).__name__}: {' '.join(str(failure).split())}"[:500]
    return "ok"


def outcomes(judge: object) -> dict[str, str]:
    """Run the capabilities of a judge in order. A failed one does not stop those after it."""
    return {name: attempt(getattr(judge, name, None)) for name in CAPABILITIES}


def main(judge: Callable[[Place], object]) -> None:
    """Run a judge as a program: its last line of output is a JSON object with the outcome of each capability."""
    sys.stdout.write(f"\n{json.dumps(outcomes(judge(Place.from_environment())))}\n")
    sys.stdout.flush()
