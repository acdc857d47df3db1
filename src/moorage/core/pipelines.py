"""Pipelines: projects of Spark's declarative pipelines, as the catalog keeps them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from moorage.core.errors import InvalidInput
from moorage.core.securables import Doc

DETAILS: Final = "pipeline"
"""The key of the definition in the record of a pipeline."""
SOURCES: Final = "sources"
"""In the arguments of a run: the versions of the tables that the pipeline reads, when the run was enqueued."""
SPEC: Final = "spark-pipeline.yml"
_ENCODED: Final = re.compile(r"[\x00-\x20\"#%<>?\[\\\]^`{|}\x7f]")
MAX_FILES: Final = 1_000
MAX_BYTES: Final = 4 * 1024 * 1024


def encoded_in(location: str) -> str | None:
    """The first character that Spark encodes in a location. It then looks for checkpoints under the name without."""
    found = _ENCODED.search(location)
    return None if found is None else found[0]


class Flow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A query that fills a table, with the tables that it reads, and the folders and files."""

    name: str
    target: str
    reads: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    file: str | None = None
    line: int | None = None


class Definition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A project and the graph that its check found."""

    files: dict[str, str]
    """Path → text. `spark-pipeline.yml` is one of them."""
    digest: str
    tables: tuple[str, ...] = ()
    """The streaming tables."""
    views: tuple[str, ...] = ()
    """The materialized views. A run publishes all of them together."""
    sinks: tuple[str, ...] = ()
    """The Delta and Lance tables to which streams append."""
    flows: tuple[Flow, ...] = ()
    schedule: str | None = None
    """A cron expression, in UTC."""
    on_change: bool = False
    """Whether a new version of a table that it reads starts a run."""

    @property
    def own_tables(self) -> frozenset[str]:
        """What the pipeline writes. Its own commits never start it."""
        return frozenset((*self.tables, *self.views, *self.sinks))

    @property
    def source_tables(self) -> tuple[str, ...]:
        """The tables that it reads and does not write."""
        return tuple(sorted({read for flow in self.flows for read in flow.reads} - self.own_tables))


def digest_of(files: Mapping[str, str]) -> str:
    """The digest of a project. Two projects have the same one if and only if their files are equal."""
    whole = hashlib.sha256()
    for path, text in sorted(files.items()):
        whole.update(msgspec.json.encode((path, text)))
    return whole.hexdigest()


def require_project(files: Mapping[str, str]) -> None:
    """Raise InvalidInput if the files cannot be a project."""
    if SPEC not in files:
        raise InvalidInput(f"files must contain {SPEC}", field="files")
    if len(files) > MAX_FILES:
        raise InvalidInput(f"a project has at most {MAX_FILES} files, not {len(files)}", field="files")
    if sum(len(text) for text in files.values()) > MAX_BYTES:
        raise InvalidInput(f"the files of a project have at most {MAX_BYTES} characters together", field="files")
    for path in files:
        parts = path.split("/")
        if path.startswith("/") or "\\" in path or "\0" in path or {"", ".", ".."} & set(parts):
            raise InvalidInput(f"the path {path!r} is not a relative path inside the project", field="files")


def definition_of(doc: Doc) -> Definition:
    return msgspec.convert(doc.details[DETAILS], Definition)


def to_details(definition: Definition) -> dict[str, Any]:
    return {DETAILS: msgspec.to_builtins(definition)}
