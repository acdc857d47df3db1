"""Scan tasks in responses: files with partitions and statistics, each value in the form of its type."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from moorage.formats.iceberg.fields import NESTED, Fields
from moorage.formats.iceberg.manifests import DATA, EQUALITY_DELETES, POSITION_DELETES, ContentFile
from moorage.formats.iceberg.scans import Scan, Task
from moorage.formats.iceberg.specs import Spec
from moorage.formats.iceberg.values import decode, to_wire

_CONTENTS = {DATA: "data", POSITION_DELETES: "position-deletes", EQUALITY_DELETES: "equality-deletes"}

_encode = msgspec.json.Encoder().encode


def tasks_to_wire(
    scan: Scan, tasks: Iterable[Task], plan_tasks: Sequence[str], *, raw_bounds: bool, head: bytes = b""
) -> bytes:
    """A `ScanTasks` response that begins with `head`.

    It is joined from bytes, because most of a response are files, whose encoding is cached.
    """
    deletes: dict[tuple[str, int | None], int] = {}
    encoded_deletes, encoded = list[bytes](), list[bytes]()
    for task in tasks:
        references = []
        for file in task.deletes:
            key = (file.path, file.offset)
            if key not in deletes:
                deletes[key] = len(deletes)
                encoded_deletes.append(file_to_wire(file, scan.specs[file.spec_id]))
            references.append(deletes[key])
        data = file_to_wire(task.file, scan.specs[task.file.spec_id])
        if scan.stats_ids:
            data = data[:-1] + _stats_to_wire(task.file, scan.fields, scan.stats_ids, raw_bounds=raw_bounds)
        refers = b',"delete-file-references":' + _encode(references) if references else b""
        encoded.append(b'{"data-file":' + data + refers + b',"residual-filter":' + task.residual.wire + b"}")
    return b"".join(
        (
            b"{",
            head,
            b'"delete-files":[',
            b",".join(encoded_deletes),
            b'],"file-scan-tasks":[',
            b",".join(encoded),
            b'],"plan-tasks":',
            _encode(plan_tasks),
            b"}",
        )
    )


def file_to_wire(file: ContentFile, spec: Spec) -> bytes:
    """A `DataFile` or `DeleteFile` without statistics."""
    if file.wire is None:
        file.wire = _encode(_file(file, spec))
    return file.wire


def _file(file: ContentFile, spec: Spec) -> dict[str, Any]:
    partition = [
        None if value is None else to_wire(field.kind, value) for field, value in zip(spec, file.partition, strict=True)
    ]
    encoded = {
        "content": _CONTENTS[file.content],
        "file-path": file.path,
        "file-format": file.format,
        "spec-id": file.spec_id,
        "partition": partition,
        "file-size-in-bytes": file.size,
        "record-count": file.records,
        "key-metadata": None if file.key_metadata is None else file.key_metadata.hex().upper(),
        "split-offsets": file.split_offsets,
        "sort-order-id": file.sort_order_id,
        "first-row-id": file.first_row_id,
        "equality-ids": file.equality_ids,
        "referenced-data-file": file.referenced,
        "content-offset": file.offset,
        "content-size-in-bytes": file.length,
    }
    return {name: value for name, value in encoded.items() if value is not None}


def _stats_to_wire(file: ContentFile, fields: Fields, ids: Sequence[int], *, raw_bounds: bool) -> bytes:
    """The rest of a file's object: counts and bounds of the requested fields."""
    stats = file.stats
    counts = {
        "column-sizes": stats.sizes,
        "value-counts": stats.values,
        "null-value-counts": stats.nulls,
        "nan-value-counts": stats.nans,
    }
    encoded = {name: _map({id: found[id] for id in ids if id in found}) for name, found in counts.items() if found}
    for name, found in (("lower-bounds", stats.lower), ("upper-bounds", stats.upper)):
        if found:
            encoded[name] = _map(_bounds(found, fields, ids, raw=raw_bounds))
    return b"," + _encode(encoded)[1:] if encoded else b"}"


def _map(found: Mapping[int, Any]) -> dict[str, list[Any]]:
    return {"keys": list(found), "values": list(found.values())}


def _bounds(found: Mapping[int, bytes], fields: Fields, ids: Sequence[int], *, raw: bool) -> dict[int, Any]:
    """Bounds in the specification's form, or as raw bytes of the manifest, the only form that Java's clients read."""
    if raw:
        return {id: found[id].hex().upper() for id in ids if id in found}
    encoded = {}
    for id in ids:
        kind, bound = fields.kind_of(id) or NESTED, found.get(id)
        value = None if bound is None else decode(kind, bound)
        # JSON has no infinity.
        if value is not None and not (isinstance(value, float) and not math.isfinite(value)):
            encoded[id] = to_wire(kind, value)
    return encoded
