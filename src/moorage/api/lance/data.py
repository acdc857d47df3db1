"""Routes that receive rows as Arrow: create a table, insert, and merge."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

import msgspec
from msgspec import Meta

from moorage.api.errands import errand_of
from moorage.api.lance.api import Delimited, lance, new_table_of, table_of
from moorage.api.lance.arrow import CHANGE_ERRORS, EXAMPLE_DATA, EXAMPLE_ROWS, STREAM, Branch, branch_in
from moorage.api.lance.bodies import EXAMPLE_LOCATION, EXAMPLE_NEW_TABLE, Count, Properties
from moorage.api.lance.modes import parse_mode
from moorage.core.errors import (
    CatalogNotFound,
    InvalidInput,
    KeyReused,
    NamespaceNotFound,
    NameTaken,
    TooLarge,
)
from moorage.http import Answer, Call, Example
from moorage.usecases.lance import create as lance_create
from moorage.usecases.lance import data as lance_data
from moorage.usecases.lance.create import IfTableExists
from moorage.usecases.lance.data import Merge, WriteMode
from moorage.usecases.lance.lookup import client_location
from moorage.usecases.ports import Ports

routes = lance.section(tags=("data",))


class CreateTableQuery(Delimited, frozen=True, kw_only=True):
    """What to do if the table already exists, and the table's properties."""

    mode: Annotated[str | None, Meta(description="Create, ExistOk or Overwrite, in any case.")] = None
    properties: Annotated[
        str | None, Meta(description="The table's properties, as a JSON object with string values.")
    ] = None
    storage_options: Annotated[str | None, Meta(description="Ignored: the server writes with its own credentials.")] = (
        None
    )


class CreateTableResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The table with this name."""

    transaction_id: str | None = None
    location: str
    version: Count | None = None
    properties: Properties


@routes.post(
    "/v1/table/{id}/create",
    operation="CreateTable",
    summary="Create a table with rows.",
    query=CreateTableQuery,
    body=bytes,
    takes=STREAM,
    answer=CreateTableResponse,
    errors=(InvalidInput, NameTaken, KeyReused, CatalogNotFound, NamespaceNotFound, TooLarge),
    example=Example(
        path=EXAMPLE_NEW_TABLE,
        query={"mode": "Create", "properties": '{"owner": "ann"}'},
        body=EXAMPLE_ROWS,
        answer={
            "transaction_id": "7",
            "location": EXAMPLE_LOCATION,
            "version": 1,
            "properties": {"owner": "ann"},
        },
    ),
)
async def create_table(call: Call[bytes, CreateTableQuery], ports: Ports) -> Answer:
    """Create a table with its location and first version in one ledger entry."""
    made = await lance_create.create_table(
        ports,
        errand_of(call, ports),
        new_table_of(call),
        call.body,
        properties=_properties(call.query.properties),
        mode=parse_mode(call.query.mode, IfTableExists.CREATE),
    )
    answer = CreateTableResponse(
        transaction_id=made.transaction,
        location=client_location(made.table),
        version=made.version,
        properties=made.table.doc.properties,
    )
    return Answer.json(answer)


def _properties(text: str | None) -> dict[str, str]:
    if not text:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput(f"properties: not a JSON object with string values: {error}", field="properties") from None


class InsertQuery(Delimited, frozen=True, kw_only=True):
    """The branch to write to, and whether to keep the existing rows."""

    branch: Branch = None
    mode: Annotated[str | None, Meta(description="Append or Overwrite, in any case.")] = None


class InsertIntoTableResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The new version."""

    transaction_id: str | None = None
    num_inserted_rows: Count
    version: Count


@routes.post(
    "/v1/table/{id}/insert",
    operation="InsertIntoTable",
    summary="Insert rows.",
    query=InsertQuery,
    body=bytes,
    takes=STREAM,
    answer=InsertIntoTableResponse,
    errors=(TooLarge, *CHANGE_ERRORS),
    example=Example(
        path=EXAMPLE_DATA,
        query={"mode": "append"},
        body=EXAMPLE_ROWS,
        answer={"transaction_id": "8", "num_inserted_rows": 2, "version": 2},
    ),
)
async def insert_into_table(call: Call[bytes, InsertQuery], ports: Ports) -> Answer:
    """Append rows, or replace all rows. A table that was only declared gets its first version."""
    done = await lance_data.insert(
        ports,
        errand_of(call, ports),
        table_of(call),
        call.body,
        branch=branch_in(call.query.branch),
        mode=parse_mode(call.query.mode, WriteMode.APPEND),
    )
    answer = InsertIntoTableResponse(
        transaction_id=done.transaction, num_inserted_rows=done.result.inserted, version=done.result.version
    )
    return Answer.json(answer)


class MergeInsertQuery(Delimited, frozen=True, kw_only=True):
    """Which rows match, and what happens to rows that match and rows that do not."""

    branch: Branch = None
    on: Annotated[tuple[str, ...], Meta(description="The columns that must be equal for rows to match.")] = ()
    when_matched_update_all: Annotated[
        bool, Meta(description="Replace a row of the table by the new row that matches it.")
    ] = False
    when_matched_update_all_filt: Annotated[
        str | None, Meta(description="Replace matching rows only where this SQL expression is true.")
    ] = None
    when_not_matched_insert_all: Annotated[
        bool, Meta(description="Insert new rows that match no row of the table.")
    ] = False
    when_not_matched_by_source_delete: Annotated[
        bool, Meta(description="Delete rows of the table that match no new row.")
    ] = False
    when_not_matched_by_source_delete_filt: Annotated[
        str | None, Meta(description="Delete unmatched rows only where this SQL expression is true.")
    ] = None
    timeout: Annotated[str | None, Meta(description="How long to retry after conflicts, for example 30s or 5m.")] = None
    use_index: Annotated[bool, Meta(description="Find matches with an index, if there is one.")] = True


class MergeInsertIntoTableResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The new version."""

    transaction_id: str | None = None
    num_updated_rows: Count
    num_inserted_rows: Count
    num_deleted_rows: Count
    version: Count


@routes.post(
    "/v1/table/{id}/merge_insert",
    operation="MergeInsertIntoTable",
    summary="Merge rows into a table.",
    query=MergeInsertQuery,
    body=bytes,
    takes=STREAM,
    answer=MergeInsertIntoTableResponse,
    errors=(TooLarge, *CHANGE_ERRORS),
    example=Example(
        path=EXAMPLE_DATA,
        query={"on": ["id"], "when_matched_update_all": True, "when_not_matched_insert_all": True},
        body=EXAMPLE_ROWS,
        answer={
            "transaction_id": "8",
            "num_updated_rows": 2,
            "num_inserted_rows": 0,
            "num_deleted_rows": 0,
            "version": 2,
        },
    ),
)
async def merge_insert_into_table(call: Call[bytes, MergeInsertQuery], ports: Ports) -> Answer:
    """Update matching rows, insert new rows, and delete unmatched rows, in one version."""
    done = await lance_data.merge(
        ports,
        errand_of(call, ports),
        table_of(call),
        call.body,
        _merge(call.query),
        branch=branch_in(call.query.branch),
    )
    answer = MergeInsertIntoTableResponse(
        transaction_id=done.transaction,
        num_updated_rows=done.result.updated,
        num_inserted_rows=done.result.inserted,
        num_deleted_rows=done.result.deleted,
        version=done.result.version,
    )
    return Answer.json(answer)


def _merge(query: MergeInsertQuery) -> Merge:
    if not query.on:
        raise InvalidInput("on: name at least one column by which rows match", field="on")
    return Merge(
        on=query.on,
        update_matched=query.when_matched_update_all or query.when_matched_update_all_filt is not None,
        update_filter=query.when_matched_update_all_filt,
        insert_unmatched=query.when_not_matched_insert_all,
        delete_unmatched=query.when_not_matched_by_source_delete
        or query.when_not_matched_by_source_delete_filt is not None,
        delete_filter=query.when_not_matched_by_source_delete_filt,
        timeout=None if query.timeout is None else _duration(query.timeout),
        use_index=query.use_index,
    )


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d{1,9})(ms|s|m|h)")


def _duration(text: str) -> timedelta:
    found = _DURATION.fullmatch(text)
    if found is None:
        raise InvalidInput(f"timeout: {text!r} is not a duration such as 30s or 5m", field="timeout")
    return timedelta(seconds=int(found[1]) * _UNITS[found[2]])
