"""Compares Iceberg metadata that a client wrote with the version of the Delta table that it should describe."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from moorage.core.errors import InvalidInput
from moorage.formats.delta.schema import Decimal
from moorage.formats.iceberg.avro import read_avro, reading
from moorage.formats.iceberg.documents import Document
from moorage.storage.confine import confine
from moorage.uniform import encoding
from moorage.uniform.bounds import row_counts
from moorage.uniform.changes import file_paths
from moorage.uniform.partitions import PartitionColumn, partition_columns, partition_values
from moorage.uniform.refusals import Refused
from moorage.uniform.schemas import convert_schema
from moorage.uniform.tables import Table

_DATA, _POSITION_DELETES, _DELETED = 0, 1, 2
_SHOWN: Final = 3
_UNKNOWN: Final = object()
"""A value that the log does not state, so the metadata cannot be compared with it."""


class ListedFile(msgspec.Struct, frozen=True, gc=False):
    """A live file of a manifest."""

    content: int
    path: str
    rows: int
    partition: tuple[tuple[int, Any], ...]
    """The partition values by their field ids."""
    referenced: str | None
    """The data file whose rows it deletes."""


def live_files(data: bytes, path: str) -> tuple[ListedFile, ...]:
    """The files of a manifest that are not deleted."""
    with reading(f"the manifest {path}"):
        file = read_avro(data)
        data_file = next(each for each in file.schema["fields"] if each["name"] == "data_file")["type"]
        partition = next(each for each in data_file["fields"] if each["name"] == "partition")["type"]
        names = [(field["field-id"], field["name"]) for field in partition["fields"]]
        return tuple(_listed(record["data_file"], names) for record in file.records if record["status"] != _DELETED)


def _listed(file: Mapping[str, Any], names: Iterable[tuple[int, str]]) -> ListedFile:
    partition = tuple((id, file["partition"][name]) for id, name in names)
    referenced = file.get("referenced_data_file")
    return ListedFile(file.get("content", _DATA), file["file_path"], file["record_count"], partition, referenced)


def require_agreement(
    doc: Document, listed: Mapping[int, Collection[ListedFile]], table: Table, files: pa.Table
) -> None:
    """Raise InvalidInput if the metadata does not describe these files of the table, in the columns of `replay.FILES`.

    `listed` are the live files of the newest snapshot, by partition spec. Bounds of columns are not compared.
    """
    _require_columns(doc, table)
    paths = file_paths(table.root, files["path"]).to_pylist()
    everything = [file for some in listed.values() for file in some]
    _require_files([file for file in everything if file.content == _DATA], paths, table)
    _require_rows(everything, paths, files, table)
    _require_deleted_rows([file for file in everything if file.content != _DATA], paths, files, table)
    _require_partitions(doc, listed, paths, files, table)


# --- columns ------------------------------------------------------------------------------------------------


def _require_columns(doc: Document, table: Table) -> None:
    current = next(each for each in doc["schemas"] if each["schema-id"] == doc["current-schema-id"])
    with_ids = table.metadata.is_mapped
    try:
        expected = convert_schema(table.schema, table.metadata, {}, 0).fields
    except Refused:  # the server has no Iceberg type for a column, but the client may have one
        names = [field["name"] for field in current["fields"]]
        if sorted(names) != sorted(field.name for field in table.schema.fields):
            raise InvalidInput(f"its columns {names} are not those of the table") from None
        return
    stated, known = (_comparable(fields, with_ids=with_ids) for fields in (current["fields"], expected))
    for name in sorted(stated.keys() | known.keys()):
        if stated.get(name) != known.get(name):
            raise InvalidInput(
                f"its column '{name}' is {stated.get(name, 'missing')}, but in the table it is "
                f"{known.get(name, 'missing')}"
            )


def _comparable(fields: Iterable[Document], *, with_ids: bool) -> dict[str, Any]:
    return {
        field["name"]: (_type(field["type"], with_ids=with_ids), *((field["id"],) if with_ids else ()))
        for field in fields
    }


def _type(kind: Any, *, with_ids: bool) -> Any:
    """A type without the ids that no column of the log states."""
    match kind:
        case {"type": "struct", "fields": fields}:
            return _comparable(fields, with_ids=with_ids)
        case {"type": "list", "element": element}:
            return ["list", _type(element, with_ids=with_ids)]
        case {"type": "map", "key": key, "value": value}:
            return ["map", _type(key, with_ids=with_ids), _type(value, with_ids=with_ids)]
    return kind.replace(" ", "") if isinstance(kind, str) else kind


# --- files --------------------------------------------------------------------------------------------------


def _full_path(path: str, root: str) -> str:
    """A path as the server writes it. Iceberg's metadata does not encode names, but other writers spell `file:` so."""
    return path if path.startswith(root) else root + confine(root, path.replace("%", "%25"))


def _require_files(listed: Collection[ListedFile], paths: Collection[str], table: Table) -> None:
    stated, known = [_full_path(file.path, table.root) for file in listed], frozenset(paths)
    if len(stated) != len(set(stated)):
        raise InvalidInput("it names a data file twice, so readers would read its rows twice")
    if foreign := sorted(set(stated) - known):
        raise InvalidInput(f"it names {len(foreign)} files that the version does not have: {_some(foreign)}")
    if missing := sorted(known.difference(stated)):
        raise InvalidInput(f"it lacks {len(missing)} files that the version has: {_some(missing)}")


def _some(paths: Iterable[str]) -> str:
    return ", ".join(itertools.islice(paths, _SHOWN))


def _require_rows(listed: Iterable[ListedFile], paths: Iterable[str], files: pa.Table, table: Table) -> None:
    known = dict(zip(paths, row_counts(files).to_pylist(), strict=True))
    for file in listed:
        expected = known[_full_path(file.path, table.root)] if file.content == _DATA else None
        if expected is not None and expected != file.rows:
            raise InvalidInput(f"it states {file.rows} rows for {file.path}, but the log states {expected}")


def _require_deleted_rows(listed: Iterable[ListedFile], paths: Iterable[str], files: pa.Table, table: Table) -> None:
    stated: dict[str, int] = {}
    for file in listed:
        if file.content != _POSITION_DELETES or file.referenced is None:
            raise InvalidInput(
                f"its delete file {file.path} does not name the data file to which it belongs, so the deleted rows "
                "cannot be compared with the table's deletion vectors"
            )
        path = _full_path(file.referenced, table.root)
        stated[path] = stated.get(path, 0) + file.rows
    vectors = pc.struct_field(files["deletionVector"], "cardinality").to_pylist()
    known = {path: deleted for path, deleted in zip(paths, vectors, strict=True) if deleted is not None}
    for path in sorted(stated.keys() | known.keys()):
        if stated.get(path, 0) != known.get(path, 0):
            raise InvalidInput(
                f"it deletes {stated.get(path, 0)} rows of {path}, but the deletion vector of the log deletes "
                f"{known.get(path, 0)}"
            )


# --- partition values ---------------------------------------------------------------------------------------


def _require_partitions(
    doc: Document,
    listed: Mapping[int, Collection[ListedFile]],
    paths: Collection[str],
    files: pa.Table,
    table: Table,
) -> None:
    columns = _partition_columns(doc, table)
    specs = {spec["spec-id"]: spec["fields"] for spec in doc["partition-specs"]}
    values = {column.leaf.id: dict(zip(paths, _raw_values(files, column), strict=True)) for column in columns}
    for spec_id, some in listed.items():
        fields = {field["field-id"]: field["source-id"] for field in specs.get(spec_id, ())}
        is_identity = all(field["transform"] == "identity" for field in specs.get(spec_id, ()))
        if some and (not is_identity or set(fields.values()) != set(values)):
            expected = ", ".join(column.shown for column in columns) or "no column"
            raise InvalidInput(f"its partition spec {spec_id} does not partition by the values of {expected}")
        for file in some:
            path = _full_path(file.referenced or file.path, table.root)
            for id, value in file.partition:
                known = values[fields[id]][path]
                if known is not _UNKNOWN and _plain(value) != known:
                    raise InvalidInput(
                        f"the partition value of {file.path} is {_plain(value)!r} in the metadata, and {known!r} in "
                        "the log"
                    )


def _partition_columns(doc: Document, table: Table) -> tuple[PartitionColumn, ...]:
    current = next(each for each in doc["schemas"] if each["schema-id"] == doc["current-schema-id"])
    ids = {field["name"].lower(): field["id"] for field in current["fields"]}
    try:
        return partition_columns(table.schema, table.metadata, ids, {}, 0, time_zone=table.time_zone)
    except Refused as refused:
        raise InvalidInput(str(refused)) from None


def _raw_values(files: pa.Table, column: PartitionColumn) -> Iterator[Any]:
    """The values of a partition column as Avro stores them."""
    try:
        values = partition_values(files, column)
    except Refused:  # a text that only its writer understands
        return itertools.repeat(_UNKNOWN, files.num_rows)
    if isinstance(column.leaf.type, Decimal):
        unscaled = (
            int.from_bytes(each, "big", signed=True) for each in encoding.big_endian_decimals(values).to_pylist()
        )
        return (one if valid else None for one, valid in zip(unscaled, values.is_valid().to_pylist(), strict=True))
    whole = {"date": pa.int32(), "timestamp": pa.int64(), "timestamp_ntz": pa.int64()}.get(column.kind.name)
    return iter((values if whole is None else values.cast(whole)).to_pylist())


def _plain(value: Any) -> Any:
    return int.from_bytes(value, "big", signed=True) if isinstance(value, bytes) else value
