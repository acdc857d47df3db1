"""What a recipient can find: its shares, their schemas and their tables.

A recipient learns nothing about other shares: a share that was not granted is answered like one that does not exist.
Lists continue after a name, so objects that are added or removed meanwhile cause no duplicates and no gaps. One page
shows a share as it is at one moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import msgspec

from moorage.core.errors import Busy, NamespaceNotFound, SecurableNotFound, TableNotFound
from moorage.core.ids import SecurableId
from moorage.core.names import is_addressable_in_unity, name_key
from moorage.core.recipients import Recipient
from moorage.core.securables import Kind, Securable, Shelf
from moorage.core.shares import (
    WHOLE_SCHEMA,
    ObjectDetails,
    Partition,
    details_of,
    first_key_of,
    last_key_of,
    resolved,
    schema_of,
    table_of,
)
from moorage.ledger.port import Step
from moorage.usecases.catalog.addresses import Chain, find_by_id
from moorage.usecases.catalog.paging import seal, unseal
from moorage.usecases.ports import Ports
from moorage.usecases.sharing.shared_tables import SharedTable

T = TypeVar("T")

_FIELD: Final = "pageToken"
_BATCH: Final = 100
_MAX_OBJECTS: Final = 1_000
"""A page ends after this many shared objects, even if it is not full: many shared schemas may be empty."""
_MAX_ATTEMPTS: Final = 10


class SharePage(msgspec.Struct, frozen=True):
    shares: tuple[Securable, ...]
    next_token: str | None


class SchemaPage(msgspec.Struct, frozen=True):
    share: Securable
    schemas: tuple[str, ...]
    next_token: str | None


class TablePage(msgspec.Struct, frozen=True):
    """Tables in the order of their names. Conditions on the recipient's properties are not resolved in `partitions`."""

    share: Securable
    tables: tuple[SharedTable, ...]
    next_token: str | None


async def list_shares(ports: Ports, recipient: Recipient, *, token: str | None, limit: int) -> SharePage:
    """The recipient's shares, ordered by name."""
    scope = f"{recipient.id}/shares"
    after = unseal(ports.page_secret, scope, token, field=_FIELD)
    chains = await asyncio.gather(*(find_by_id(ports.ledger, id) for id in recipient.shares))
    shares = {name_key(chain[-1].name): chain[-1] for chain in chains if chain}
    keys = sorted(key for key in shares if key > after)
    more = len(keys) > limit
    last = keys[limit - 1] if more and limit else after
    return SharePage(tuple(shares[key] for key in keys[:limit]), seal(ports.page_secret, scope, last) if more else None)


async def find_share(ports: Ports, recipient: Recipient, name: str) -> Securable:
    """One share of the recipient."""
    return _require_share((await ports.ledger.walk((_share_step(name),))).chain, recipient, name)


async def list_schemas(ports: Ports, recipient: Recipient, share: str, *, token: str | None, limit: int) -> SchemaPage:
    """The schemas of a share, ordered by name."""

    async def read(found: Securable, scan: _Scan) -> SchemaPage:
        scope = f"{recipient.id}/{found.id}/schemas"
        after = unseal(ports.page_secret, scope, token, field=_FIELD)
        names = await _schemas_after(scan, found.id, after, limit + 1)
        more = len(names) > limit
        last = last_key_of(names[limit - 1]) if more and limit else after
        return SchemaPage(found, tuple(names[:limit]), seal(ports.page_secret, scope, last) if more else None)

    return await _at_one_moment(ports, recipient, share, read)


async def list_tables(
    ports: Ports, recipient: Recipient, share: str, schema: str, *, token: str | None, limit: int
) -> TablePage:
    """The tables of one schema of a share, ordered by name."""
    first, last = first_key_of(schema), last_key_of(schema)

    async def read(found: Securable, scan: _Scan) -> TablePage:
        if not token:
            listed = await scan.children(found.id, Shelf.SHARED_OBJECT, after=first, limit=1)
            if not listed or name_key(listed[0].name) >= last:
                raise NamespaceNotFound(f"schema '{schema}' does not exist in share '{share}'", name=schema)
        return await _table_page(ports, recipient, found, scan, f"tables/{first}", token, limit, first, last)

    return await _at_one_moment(ports, recipient, share, read)


async def list_all_tables(
    ports: Ports, recipient: Recipient, share: str, *, token: str | None, limit: int
) -> TablePage:
    """The tables of all schemas of a share, ordered by schema and name."""

    async def read(found: Securable, scan: _Scan) -> TablePage:
        return await _table_page(ports, recipient, found, scan, "all-tables", token, limit, "", None)

    return await _at_one_moment(ports, recipient, share, read)


async def find_table(ports: Ports, recipient: Recipient, share: str, schema: str, table: str) -> SharedTable:
    """One table of a share, with the conditions that hold for this recipient."""
    missing = TableNotFound(f"table '{schema}.{table}' does not exist in share '{share}'", name=f"{schema}.{table}")
    steps = (_share_step(share), Step(Shelf.SHARED_OBJECT, name_key(f"{schema}.{table}")))
    chain = (await ports.ledger.walk(steps)).chain
    found = _require_share(chain, recipient, share)
    if len(chain) == len(steps) and details_of(chain[-1]).type == "TABLE":
        shared, details = chain[-1], details_of(chain[-1])
        target = await find_by_id(ports.ledger, details.target)
        name = table_of(shared.name)
    else:
        whole = (await ports.ledger.walk((steps[0], Step(Shelf.SHARED_OBJECT, _whole_key(schema))))).chain
        if len(whole) != len(steps) or details_of(whole[-1]).type != "SCHEMA":
            raise missing
        shared, details = whole[-1], details_of(whole[-1])
        target = await _find_child(ports, details.target, table)
        name = target[-1].name if target else table
    if not target or not is_shareable(ports, target[-1]):
        raise missing
    partitions = resolved(details.partitions, recipient.properties)
    return _shared_table(found, schema_of(shared.name), name, target, details, partitions)


def is_shareable(ports: Ports, securable: Securable) -> bool:
    """Whether recipients can read the object: a table of a format that the sharing protocol can describe."""
    return securable.kind is Kind.TABLE and ports.formats.of(securable).is_shareable


# --- one page of a share ---------------------------------------------------------------------------


class _Scan:
    """Reads several lists of objects, and knows whether all of them show the same state of the ledger."""

    def __init__(self, ports: Ports) -> None:
        self._ledger = ports.ledger
        self._seqs: list[int] = []

    async def children(
        self, parent: SecurableId, shelf: Shelf, *, after: str, limit: int, kinds: Sequence[Kind] = ()
    ) -> tuple[Securable, ...]:
        listing = await self._ledger.children(parent, shelf, after=after, limit=limit, kinds=kinds)
        self._seqs.append(listing.position.seq)
        return listing.items

    @property
    def is_one_moment(self) -> bool:
        return len(set(self._seqs)) <= 1

    def is_between(self, first: int, last: int) -> bool:
        return first <= min(self._seqs) and max(self._seqs) <= last


async def _at_one_moment(
    ports: Ports, recipient: Recipient, name: str, read: Callable[[Securable, _Scan], Awaitable[T]]
) -> T:
    """Read a share, and read it again if its objects changed meanwhile. Each change of them revises the share."""
    for attempt in range(_MAX_ATTEMPTS):
        await asyncio.sleep(0.001 * attempt)
        before, scan = await ports.ledger.walk((_share_step(name),)), _Scan(ports)
        share = _require_share(before.chain, recipient, name)
        result = await read(share, scan)
        if scan.is_one_moment:
            return result
        after = await ports.ledger.walk((_share_step(name),))
        # Positions are compared because a read may be served from a cache that is behind the one before it.
        is_same = _require_share(after.chain, recipient, name).revision == share.revision
        if is_same and scan.is_between(before.position.seq, after.position.seq):
            return result
    raise Busy(f"share '{name}' changed {_MAX_ATTEMPTS} times while it was read; retry the request")


async def _schemas_after(scan: _Scan, share: SecurableId, after: str, limit: int) -> list[str]:
    """The names of the next schemas. The rest of a schema that fills a batch is skipped, not read."""
    names: list[str] = []
    keys: set[str] = set()
    while len(names) < limit:
        listed = await scan.children(share, Shelf.SHARED_OBJECT, after=after, limit=_BATCH)
        for item in listed:
            schema = schema_of(item.name)
            if name_key(schema) not in keys:
                keys.add(name_key(schema))
                names.append(schema)
        if len(listed) < _BATCH:
            break
        after = last_key_of(names[-1])
    return names


class _Position(msgspec.Struct, frozen=True, array_like=True):
    """The last table of a page: the key of its shared object, and its own key if the object is a whole schema."""

    object: str
    item: str | None = None

    @property
    def after(self) -> str:
        """The key after which to read. A whole schema that was not listed to its end is read again."""
        return self.object if self.item is None else self.object.removesuffix(WHOLE_SCHEMA)


class _Candidate(msgspec.Struct, frozen=True):
    """A table that may be on the page. A single table is looked up later, all of them together."""

    position: _Position
    shared: Securable
    details: ObjectDetails
    chain: Chain | None = None


async def _table_page(
    ports: Ports,
    recipient: Recipient,
    share: Securable,
    scan: _Scan,
    list_name: str,
    token: str | None,
    limit: int,
    first: str,
    end: str | None,
) -> TablePage:
    """The next tables whose shared objects have keys between two bounds."""
    scope = f"{recipient.id}/{share.id}/{list_name}"
    text = unseal(ports.page_secret, scope, token, field=_FIELD)
    start = msgspec.json.decode(text, type=_Position) if text else _Position(first)
    candidates, last = await _candidates(ports, scan, share.id, start, end, limit)
    chains = await asyncio.gather(*(_chain_of(ports, each) for each in candidates))
    tables = tuple(
        _listed_table(share, candidate, chain)
        for candidate, chain in zip(candidates, chains, strict=True)
        if chain and is_shareable(ports, chain[-1]) and is_addressable_in_unity(chain[-1].name)
    )
    next_token = None if last is None else seal(ports.page_secret, scope, msgspec.json.encode(last).decode())
    return TablePage(share, tables, next_token)


async def _candidates(
    ports: Ports, scan: _Scan, share: SecurableId, start: _Position, end: str | None, limit: int
) -> tuple[list[_Candidate], _Position | None]:
    """At most `limit` candidates after a position, and the last position if there are more."""
    found: list[_Candidate] = []
    position, read = start, 0
    while True:
        size = min(limit + 1 - len(found), _MAX_OBJECTS)
        listed = await scan.children(share, Shelf.SHARED_OBJECT, after=position.after, limit=size)
        for shared in listed:
            key, details = name_key(shared.name), details_of(shared)
            if end is not None and key >= end:
                return _cut(found, limit, start)
            if details.type == "TABLE":
                found.append(_Candidate(_Position(key), shared, details))
            else:
                after = position.item if position.object == key else None
                found += await _whole_schema(ports, scan, shared, details, after or "", limit + 1 - len(found))
            position = _Position(key)
            if len(found) > limit:
                return _cut(found, limit, start)
        read += len(listed)
        if len(listed) < size:
            return _cut(found, limit, start)
        if read >= _MAX_OBJECTS:
            return found, position


def _cut(found: list[_Candidate], limit: int, start: _Position) -> tuple[list[_Candidate], _Position | None]:
    if len(found) <= limit:
        return found, None
    return found[:limit], found[limit - 1].position if limit else start


async def _whole_schema(
    ports: Ports, scan: _Scan, shared: Securable, details: ObjectDetails, after: str, limit: int
) -> list[_Candidate]:
    """The tables of a schema that is shared as a whole, including those created since."""
    above = await find_by_id(ports.ledger, details.target)
    if not above:
        return []
    tables = await scan.children(details.target, Shelf.RELATION, after=after, limit=limit, kinds=(Kind.TABLE,))
    key = name_key(shared.name)
    return [_Candidate(_Position(key, name_key(each.name)), shared, details, (*above, each)) for each in tables]


async def _chain_of(ports: Ports, candidate: _Candidate) -> Chain:
    return candidate.chain or await find_by_id(ports.ledger, candidate.details.target)


def _listed_table(share: Securable, candidate: _Candidate, chain: Chain) -> SharedTable:
    shared, details = candidate.shared, candidate.details
    name = table_of(shared.name) if details.type == "TABLE" else chain[-1].name
    return _shared_table(share, schema_of(shared.name), name, chain, details, details.partitions)


def _shared_table(
    share: Securable, schema: str, name: str, chain: Chain, details: ObjectDetails, partitions: tuple[Partition, ...]
) -> SharedTable:
    return SharedTable(
        share_id=share.id,
        share=share.name,
        schema=schema,
        name=name,
        id=chain[-1].id,
        table=chain[-1],
        chain=chain,
        history=details.history,
        partitions=partitions,
        start_version=details.start_version,
    )


# --- single objects --------------------------------------------------------------------------------


def _share_step(name: str) -> Step:
    return Step(Shelf.SHARE, name_key(name))


def _whole_key(schema: str) -> str:
    return first_key_of(schema) + WHOLE_SCHEMA


def _require_share(chain: Chain, recipient: Recipient, name: str) -> Securable:
    if not chain or chain[0].id not in recipient.shares:
        raise SecurableNotFound(f"share '{name}' does not exist, or it is not shared with you", name=name)
    return chain[0]


async def _find_child(ports: Ports, namespace: SecurableId, name: str) -> Chain:
    """The table of this name in a namespace, with its ancestors; empty if there is none."""
    above = await find_by_id(ports.ledger, namespace)
    if not above or not is_addressable_in_unity(name):
        return ()
    shelves = (Shelf.CATALOG, *(Shelf.NAMESPACE for _ in above[1:]), Shelf.RELATION)
    names = (*(part.name for part in above), name)
    steps = tuple(Step(shelf, name_key(each)) for shelf, each in zip(shelves, names, strict=True))
    chain = (await ports.ledger.walk(steps)).chain
    return chain if len(chain) == len(steps) and chain[-2].id == namespace else ()
