"""The lines of changes: the file actions of commits, for streams and for the change data feed."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from moorage.formats.delta.deletion_vectors import vector_path
from moorage.formats.delta.file_actions import AddFile, ChangeFile, RemoveFile
from moorage.formats.sharing.capabilities import ResponseFormat
from moorage.formats.sharing.file_ids import IdScheme, file_id
from moorage.formats.sharing.file_lines import Stated
from moorage.formats.sharing.lines import to_line

FileAction = AddFile | RemoveFile | ChangeFile

_PARQUET_NAMES: Final[dict[type[Any], str]] = {AddFile: "add", RemoveFile: "remove", ChangeFile: "cdf"}
_DELTA_NAMES: Final[dict[type[Any], str]] = {AddFile: "add", RemoveFile: "remove", ChangeFile: "cdc"}


def vector_path_of(action: FileAction) -> str | None:
    """The path of the file with the action's deletion vector, if it has one."""
    vector = None if isinstance(action, ChangeFile) else action.deletion_vector
    return None if vector is None else vector_path(vector)


def has_vector(action: FileAction) -> bool:
    return not isinstance(action, ChangeFile) and action.deletion_vector is not None


def change_line(
    action: FileAction,
    chosen: ResponseFormat,
    scheme: IdScheme,
    stated: Stated,
    *,
    url: str,
    vector_url: str | None = None,
) -> bytes:
    common: dict[str, Any] = {
        "id": file_id(action.path, scheme),
        "version": stated.version,
        "timestamp": stated.timestamp_ms,
        "expirationTimestamp": stated.expires_at_ms,
    }
    if chosen == "parquet":
        stats = None if isinstance(action, ChangeFile) else action.stats
        file = {"url": url, **common, "partitionValues": action.partition_values or {}, "size": action.size or 0}
        return to_line({_PARQUET_NAMES[type(action)]: file if stats is None else {**file, "stats": stats}})
    if not isinstance(action, ChangeFile) and action.deletion_vector is not None:
        vector = action.deletion_vector
        common["deletionVectorFileId"] = file_id(vector_path(vector) or vector.path_or_inline_dv, scheme)
        if vector_url is not None:
            action = replace(action, deletion_vector=replace(vector, storage_type="p", path_or_inline_dv=vector_url))
    single = msgspec.to_builtins(replace(action, path=url))
    single.setdefault("dataChange", action.data_change)
    if isinstance(action, RemoveFile):
        # Clients require these, although a log may omit them.
        single.setdefault("size", 0)
        single.setdefault("partitionValues", {})
    return to_line({"file": {**common, "deltaSingleAction": {_DELTA_NAMES[type(action)]: single}}})
