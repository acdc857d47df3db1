"""Refuses what a project writes while it is imported: a check would have an effect, and a run would repeat it.

SDP blocks DDL, DML and settings. It does not block the writers of DataFrames, new tables and files. This catches
mistakes. It is no sandbox: a project can do what the session of Spark can do.
"""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

_COMMANDS: Final = frozenset(
    ("pipeline_command", "sql_command", "get_resources_command", "register_data_source", "register_function")
)
"""Definitions and lookups. The server refuses statements that write in `sql_command`."""
_CATALOG_WRITES: Final = frozenset(("create_table", "create_external_table", "recover_partitions"))
_FILE_EVENTS: Final = {
    "os.remove": "removes",
    "os.rename": "renames",
    "os.mkdir": "creates",
    "os.rmdir": "removes",
    "os.link": "links",
    "os.symlink": "links",
    "os.truncate": "truncates",
}
_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Refused(Exception):
    """The project would lose rows silently, or has effects at import."""


def place_in(frames: Sequence[traceback.FrameSummary], root: Path) -> str:
    """The innermost line of the project, as a prefix."""
    for frame in reversed(frames):
        path = Path(frame.filename)
        if path.is_relative_to(root):
            return f"{path.relative_to(root)}:{frame.lineno}: "
    return ""


@contextmanager
def no_writes(spark: Any, root: Path) -> Iterator[None]:
    """Refuse writes to tables and files in this block, by the file and line of the project."""
    guard = _Guard(root)
    tempfile.gettempdir()  # the first call writes a file, also if a library makes it
    sys.dont_write_bytecode = True
    sys.addaudithook(guard.audit)  # a hook cannot be removed, so it is switched off
    client = spark.client
    stub = client._stub
    client._stub = _Stub(stub, guard)
    guard.is_on = True
    try:
        yield
    finally:
        guard.is_on = False
        client._stub = stub


class _Guard:
    def __init__(self, root: Path) -> None:
        self.is_on = False
        self._root = root.resolve()

    def refuse(self, what: str) -> None:
        place = place_in(traceback.extract_stack(), self._root)
        raise Refused(f"{place}the project {what} while it is imported; define a table, a view or a sink")

    def audit(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.is_on:
            return
        if event == "open":
            path, _, flags = args
            if isinstance(path, str | bytes) and flags & _WRITES and not os.fsdecode(path).startswith("/dev/"):
                self.refuse(f"writes the file '{os.fsdecode(path)}'")
        elif event in _FILE_EVENTS:
            self.refuse(f"{_FILE_EVENTS[event]} '{args[0]}'")

    def require_reading(self, plan: Any) -> None:
        kind = plan.WhichOneof("op_type")
        if kind == "command":
            command = plan.command.WhichOneof("command_type")
            if command not in _COMMANDS:
                self.refuse(f"sends the command {command} to Spark")
        elif kind == "root" and plan.root.WhichOneof("rel_type") == "catalog":
            call = plan.root.catalog.WhichOneof("cat_type")
            if call in _CATALOG_WRITES:
                self.refuse(f"calls catalog.{call}")


class _Stub:
    """Spark's stub, which looks at each plan before it is sent."""

    def __init__(self, inner: Any, guard: _Guard) -> None:
        self._inner, self._guard = inner, guard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def ExecutePlan(self, request: Any, **options: Any) -> Any:  # noqa: N802  the name of the service's method
        self._guard.require_reading(request.plan)
        return self._inner.ExecutePlan(request, **options)
