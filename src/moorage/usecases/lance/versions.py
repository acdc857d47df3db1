"""The commit authority for Lance: a staged manifest is checked and becomes the next version of its line.

The ledger's row is the commit. Copying the manifest to its final name is repair work: a chore does it, and so does
every reader that gets a staged name. The order of the checks decides which error a client gets: fields, table, replay,
a taken version, a gap, and only then the file. So the writer that lost a race gets a conflict, and can read the
winner's version immediately.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from moorage.core.callers import Caller
from moorage.core.entries import Attachment, Change, Commit, Done, DropLine, HeadIs, Publish
from moorage.core.errors import InvalidInput, TooLarge, VersionNotFound, VersionTaken
from moorage.core.ids import SecurableId
from moorage.core.locations import require_location
from moorage.core.privileges import Privilege
from moorage.core.securables import MAIN, Head, Securable
from moorage.core.versions import Proposed, Verdict, VersionKind, is_behind, is_gap, ratify
from moorage.formats.lance.manifests import (
    LARGEST_VERSION,
    NamingScheme,
    final_name,
    manifest_folder,
    require_key,
    require_manifest,
    store_path,
)
from moorage.ledger.port import Version
from moorage.storage.digests import digest_of
from moorage.usecases.catalog.addresses import Address, Chain, queue_of
from moorage.usecases.catalog.paging import seal, unseal
from moorage.usecases.lance.lookup import find_table, is_head_missing, line_head, require_line
from moorage.usecases.lance.manifests import MAX_MANIFEST_BYTES, is_cleaned_up, set_unratified_aside
from moorage.usecases.local_state import CacheKind
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import Settled, settle
from moorage.usecases.upkeep.publish import record_linked

KEPT_BYTES = 1024 * 1024
"""Manifests up to this size are also stored in the ledger until they are published, so that a commit needs no fsync of
the staged file. The file of a larger manifest must be durable before the commit."""


_CONCURRENT_CHECKS = 32
"""How many manifests are looked up in the store concurrently."""
_LINKED: Final = CacheKind[tuple[SecurableId, str], str]("linked lance manifests", limit=16_384)
"""Staged manifests that this server linked to their final names: every writer that lost a race reads the newest."""


TRIMMED: Final = "trimmed"
"""In a table's details: the record of its newest version was deleted once, so its head may have no record."""


class NewVersion(msgspec.Struct, frozen=True, kw_only=True):
    """The version that a writer requests, and its staged manifest."""

    version: int
    manifest_path: str
    manifest_size: int | None = None
    e_tag: str | None = None
    metadata: dict[str, str] | None = None
    scheme: NamingScheme | None = None
    ref: str = MAIN


LineKey = tuple[SecurableId, str]


class Line(msgspec.Struct, frozen=True):
    """A line of a table as a writer finds it. `head` is None before its first version."""

    table: Securable
    ref: str
    head: int | None
    deleted_head: int | None = None
    """The head of an earlier branch of this name that a client deleted. The commit of the new branch drops its line."""

    @property
    def key(self) -> LineKey:
        return self.table.id, self.ref


class TableVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One version, with the current path of its manifest."""

    version: int
    manifest_path: str
    manifest_size: int
    timestamp_ms: int
    seq: int | None
    e_tag: str | None
    metadata: dict[str, str] | None
    scheme: str | None


async def create_version(ports: Ports, errand: Errand, address: Address, new: NewVersion) -> TableVersion:
    """Make the staged manifest the next version. A retry returns the original response."""

    async def prepare(caller: Caller) -> Part:
        table = (await find_table(ports, caller, address, Privilege.MODIFY))[-1]
        return await prepare_version(ports, await read_line(ports, table, new.ref), new)

    async with ports.local.race(queue_of(address)):
        settled = await settle(ports, errand, prepare)
    if not settled.parts:
        return await describe_version(ports, errand.caller, address, new.ref, new.version)
    return await created_version(ports, settled)


async def created_version(ports: Ports, settled: Settled) -> TableVersion:
    """The version that an entry just created, or the recorded version if the part is a replay."""
    version = next(part for part in settled.parts if part.done.versions)
    table = version.before
    if table is None:
        raise TypeError(f"the part has no version: {version}")
    if version.is_replay:
        row: Version = version.result
        return to_table_version(table, row, await readable_key(ports, table, row), row.seq)
    commit = commit_in(version.changes)
    staged = next((each.staged for each in version.attachments), None)
    return to_table_version(table, commit, await readable_key(ports, table, commit, staged), settled.receipt.seq)


def commit_in(changes: Iterable[Change]) -> Commit:
    """The commit among the changes of a part or an entry."""
    return next(change for change in changes if isinstance(change, Commit))


async def read_line(ports: Ports, table: Securable, ref: str) -> Line:
    head = await line_head(ports, table, ref)
    if head is None:
        return Line(table, ref, None)
    if ref != MAIN and await is_head_missing(ports, table, head):
        return Line(table, ref, None, deleted_head=head.version)
    return Line(table, ref, head.version)


async def prepare_version(ports: Ports, line: Line, new: NewVersion, *, details: dict[str, Any] | None = None) -> Part:
    """The part that makes a staged manifest the next version of its line; a replay if it already is a version.

    `details` are stored with the version, besides the details that its writer stated.
    """
    table, location = line.table, require_location(line.table)
    if not 1 <= new.version <= LARGEST_VERSION:
        raise InvalidInput(
            f"version {new.version} is out of range: versions are 1 to {LARGEST_VERSION}", field="version"
        )
    key, scheme = require_key(location, new.manifest_path, ref=line.ref, version=new.version, scheme=new.scheme)
    recorded = await _find_replay(ports, line, new.version, key)
    if recorded is not None:
        return Part(done=Done(ids=(table.id,), versions=(new.version,)), before=table, result=recorded)
    data = await _read_manifest(ports, location, key, new.manifest_size)
    if len(data) > KEPT_BYTES:
        await ports.storage.make_durable(location, key)
    stated = {"e_tag": new.e_tag, "metadata": new.metadata, "scheme": scheme.value, **(details or {})}
    commit = Commit(
        table=table.id,
        ref=line.ref,
        version=new.version,
        operation=VersionKind.CHANGE,
        file=key,
        size=len(data),
        digest=await digest_of(data),
        timestamp_ms=ports.now_ms(),
        publish=Publish(target=manifest_folder(line.ref) + final_name(new.version, scheme), source=key),
        details={name: value for name, value in stated.items() if value is not None},
    )
    attached = Attachment(table=table.id, ref=line.ref, version=new.version, staged=data)
    dropped_line = () if line.deleted_head is None else (DropLine(table=table.id, ref=line.ref),)
    return Part(
        expects=(HeadIs(table.id, line.ref, line.deleted_head or line.head),),
        changes=(*dropped_line, commit),
        attachments=(attached,) if len(data) <= KEPT_BYTES else (),
        done=Done(ids=(table.id,), versions=(new.version,)),
        before=table,
    )


async def _find_replay(ports: Ports, line: Line, version: int, key: str) -> Version | None:
    """The record of a version that already exists; None if it is the next. `core.versions` decides.

    A branch begins with the version that it was forked from, the main line with 1.
    """
    first = 1 if line.ref == MAIN else version
    rows: tuple[Version, ...] = ()
    if is_behind(line.head, version, first=first):
        rows = await ports.ledger.versions(line.table.id, line.ref, first=version, last=version)
    elif is_gap(line.head, version, first=first):
        await set_unratified_aside(ports, line.table, line.ref)
    recorded = rows[0] if rows else None
    verdict = ratify(line.head, Proposed(version=version, file=key), recorded, first=first)
    return recorded if verdict is Verdict.REPLAY else None


def version_taken_error(line: Line, version: int) -> VersionTaken:
    """Also used if the version's record was deleted: a number is never reused."""
    return VersionTaken(f"version {version} is taken; the latest is {line.head}", field="version", latest=line.head)


async def _read_manifest(ports: Ports, location: str, key: str, size: int | None) -> bytes:
    try:
        data = await ports.storage.read(location, key, limit=MAX_MANIFEST_BYTES if size is None else size)
    except TooLarge:
        raise InvalidInput(
            f"the manifest is larger than its stated or maximum size of {size or MAX_MANIFEST_BYTES} bytes",
            field="manifest_size",
        ) from None
    if data is None:
        raise InvalidInput(f"the manifest {key!r} does not exist", field="manifest_path")
    if size is not None and len(data) != size:
        raise InvalidInput(f"the manifest has {len(data)} bytes, not {size}", field="manifest_size")
    require_manifest(data, key)
    return data


class TableAtVersion(msgspec.Struct, frozen=True):
    """A table with its ancestors, at a version (None if it has none yet)."""

    chain: Chain
    version: int | None


async def table_at_version(
    ports: Ports, caller: Caller, address: Address, *, ref: str = MAIN, version: int | None = None
) -> TableAtVersion:
    """The table at the newest version of a line, or at a given version, which must exist."""
    chain = await find_table(ports, caller, address, Privilege.READ)
    head = await require_line(ports, chain[-1], ref)
    if version is not None:
        await _find_version(ports, chain[-1], ref, head, version)
        return TableAtVersion(chain, version)
    if TRIMMED in chain[-1].doc.details:
        left = await ports.ledger.versions(chain[-1].id, ref, limit=1, descending=True)
        return TableAtVersion(chain, left[0].version if left else None)
    return TableAtVersion(chain, None if head is None else head.version)


async def describe_version(
    ports: Ports, caller: Caller, address: Address, ref: str, version: int | None
) -> TableVersion:
    """One version of a line; the newest if no number is given."""
    table = (await find_table(ports, caller, address, Privilege.READ))[-1]
    return await _find_version(ports, table, ref, await require_line(ports, table, ref), version)


async def _find_version(
    ports: Ports, table: Securable, ref: str, head: Head | None, version: int | None
) -> TableVersion:
    found = None
    if head is not None:
        span = {} if version is None else {"first": version, "last": version}
        # The newest with a record: records of newer versions may have been deleted.
        rows = await ports.ledger.versions(table.id, ref, **span, limit=1, descending=True)
        found = await _existing_version(ports, table, rows[0], head) if rows else None
    if found is None:
        which = "a version" if version is None else f"version {version}"
        raise VersionNotFound(f"table '{table.name}' does not have {which}", field="version")
    return found


async def list_versions(
    ports: Ports, caller: Caller, address: Address, ref: str, *, token: str | None, limit: int, descending: bool
) -> tuple[list[TableVersion], str | None]:
    """A page of versions of a line in order, and the token of the next page."""
    table = (await find_table(ports, caller, address, Privilege.READ))[-1]
    head = await require_line(ports, table, ref)
    scope = f"{caller.id}/{table.id}/{ref}/versions/{descending}"
    after = unseal(ports.page_secret, scope, token)
    if head is None:
        return [], None
    first = int(after) + 1 if after and not descending else 0
    last = int(after) - 1 if after and descending else None
    found = await ports.ledger.versions(table.id, ref, first=first, last=last, limit=limit, descending=descending)
    existing: list[TableVersion | None] = []
    for start in range(0, len(found), _CONCURRENT_CHECKS):
        some = found[start : start + _CONCURRENT_CHECKS]
        existing += await asyncio.gather(*(_existing_version(ports, table, each, head) for each in some))
    # A branch begins later than 1, and records may be deleted: the last page can be empty.
    end = 1 if descending else head.version
    is_last = len(found) < limit or found[-1].version == end
    more = None if is_last else seal(ports.page_secret, scope, str(found[-1].version))
    return [each for each in existing if each is not None], more


async def _existing_version(ports: Ports, table: Securable, row: Version, head: Head) -> TableVersion | None:
    """The version with the path of its manifest; None if a client cleaned it up.

    Lance's own clean-up deletes manifests without the catalog. It never deletes the newest version, and a writer must
    always get the newest.
    """
    is_published = row.publish is None or row.version <= (head.published or 0)
    if row.version != head.version and not is_published and await _was_cleaned_up(ports, table, row):
        return None
    key = final_key(row) if is_published else await readable_key(ports, table, row)
    if row.version == head.version:
        return to_table_version(table, row, key, row.seq)
    for each in (key, _other_scheme_key(row)):
        if not await ports.storage.is_missing(require_location(table), each, remote=True):
            return to_table_version(table, row, each, row.seq)
    return None


async def _was_cleaned_up(ports: Ports, table: Securable, row: Version) -> bool:
    """Whether a client cleaned up the version before it was published. Its staged manifest must then be ignored."""
    storage, location = ports.storage, require_location(table)
    if not await storage.is_missing(location, final_key(row), remote=True):
        return False
    staged = await storage.read(location, row.file, limit=MAX_MANIFEST_BYTES)
    return staged is not None and await is_cleaned_up(ports, table, row, staged)


def _other_scheme_key(row: Version) -> str:
    """The final name in the other naming scheme: a client can rename all manifests of a table."""
    other = NamingScheme.V1 if row.details.get("scheme") == NamingScheme.V2 else NamingScheme.V2
    return manifest_folder(row.ref) + final_name(row.version, other)


def final_key(made: Commit | Version) -> str:
    """The path of a version's manifest after publishing. A registered version is always published."""
    return made.file if made.publish is None else made.publish.target


async def readable_key(ports: Ports, table: Securable, made: Commit | Version, data: bytes | None = None) -> str:
    """The path at which to read the manifest of an unpublished version. `data` is its content, if known.

    This is the final name if the store can create it immediately: a reader that gets a staged manifest copies it and
    warns about it. Making the final name durable is left to the chores.
    """
    storage, location, final = ports.storage, require_location(table), final_key(made)
    linked = ports.local.cache(_LINKED)
    if final == made.file or (table.id, made.file) in linked:
        return final
    if await storage.link(location, made.file, final.rpartition("/")[2], data=data):
        linked.put((table.id, made.file), final)
        if made.ref == MAIN and isinstance(made, Commit) and data is not None:
            record_linked(ports, made)
        return final
    # A staged manifest that was linked before may be deleted.
    is_only_final = await storage.size(location, made.file) is None and await storage.size(location, final) is not None
    return final if is_only_final else made.file


def to_table_version(table: Securable, made: Commit | Version, key: str, seq: int | None) -> TableVersion:
    """A version as responses show it. `key` is the path of its manifest below the table."""
    return TableVersion(
        version=made.version,
        manifest_path=store_path(require_location(table), key),
        manifest_size=made.size,
        timestamp_ms=made.timestamp_ms,
        seq=seq,
        e_tag=made.details.get("e_tag"),
        metadata=made.details.get("metadata"),
        scheme=made.details.get("scheme"),
    )
