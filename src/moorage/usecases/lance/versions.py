"""The commit authority for Lance: a staged manifest is checked and becomes the next version of its line.

The ledger's row is the commit. That the manifest also reaches its final name is repair work: a chore does it,
and so does every reader that meets a staged one. The order of the checks is the order of the answers:
fields, table, replay, a taken version, a gap, and only then the file. So the loser of a race hears that it
lost, and finds the winner's version at once.
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
from moorage.usecases.lance.lookup import find_table, is_deserted, newest, require_line
from moorage.usecases.lance.manifests import LARGEST_MANIFEST, is_cleaned_away, set_strays_aside
from moorage.usecases.local_state import CacheKind
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import Settled, settle

KEPT_BYTES = 1024 * 1024
"""Manifests up to this size are kept in the ledger until they are published: their writers sync no disk. Larger ones
must be safe where they lie before they are versions."""


_ASKED_AT_ONCE = 32
"""Of how many versions a store is asked at the same time whether they are there."""
_LINKED: Final = CacheKind[tuple[SecurableId, str], str]("linked lance manifests", limit=16_384)
"""Staged manifests that this server has linked to their final names: a writer that lost a race asks for the newest."""


TRIMMED: Final = "trimmed"
"""In the details of a table: the record of its newest version was deleted once. So its head may have none."""


class NewVersion(msgspec.Struct, frozen=True, kw_only=True):
    """The version that a writer asks for, and the manifest that it staged."""

    version: int
    manifest_path: str
    manifest_size: int | None = None
    e_tag: str | None = None
    metadata: dict[str, str] | None = None
    scheme: NamingScheme | None = None
    ref: str = MAIN


LineKey = tuple[SecurableId, str]


class Line(msgspec.Struct, frozen=True):
    """A line of a table as a writer finds it: `head` is None before its first version."""

    table: Securable
    ref: str
    head: int | None
    deserted: int | None = None
    """The head of a branch of this name that a client has deleted. It ends where this one begins."""

    @property
    def key(self) -> LineKey:
        return self.table.id, self.ref


class TableVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One version, with its manifest where it lies now."""

    version: int
    manifest_path: str
    manifest_size: int
    timestamp_ms: int
    seq: int | None
    e_tag: str | None
    metadata: dict[str, str] | None
    scheme: str | None


async def create_version(ports: Ports, errand: Errand, address: Address, new: NewVersion) -> TableVersion:
    """Make the staged manifest the next version; a repeated request gets the first answer."""

    async def prepare(caller: Caller) -> Part:
        table = (await find_table(ports, caller, address, Privilege.MODIFY))[-1]
        return await prepare_version(ports, await line_of(ports, table, new.ref), new)

    async with ports.local.race(queue_of(address)):
        settled = await settle(ports, errand, prepare)
    if not settled.parts:
        return await describe_version(ports, errand.caller, address, new.ref, new.version)
    return await just_made(ports, settled)


async def just_made(ports: Ports, settled: Settled) -> TableVersion:
    """The version that an entry made a moment ago, or the recorded one if the part is a replay."""
    version = next(part for part in settled.parts if part.done.versions)
    table = version.before
    if table is None:
        raise TypeError(f"not the part of a version: {version}")
    if is_replay(version):
        row: Version = version.result
        return shown(table, row, await settled_key(ports, table, row), row.seq)
    commit = commit_in(version.changes)
    staged = next((each.staged for each in version.attachments), None)
    return shown(table, commit, await settled_key(ports, table, commit, staged), settled.receipt.seq)


def is_replay(part: Part) -> bool:
    """Whether a part is that of a version which is history already: then it changes nothing. Its result is the row."""
    return not part.changes


def commit_in(changes: Iterable[Change]) -> Commit:
    """The version among the changes of a part or an entry that makes one."""
    return next(change for change in changes if isinstance(change, Commit))


async def line_of(ports: Ports, table: Securable, ref: str) -> Line:
    head = await newest(ports, table, ref)
    if head is None:
        return Line(table, ref, None)
    if ref != MAIN and await is_deserted(ports, table, head):
        return Line(table, ref, None, deserted=head.version)
    return Line(table, ref, head.version)


async def prepare_version(ports: Ports, line: Line, new: NewVersion, *, details: dict[str, Any] | None = None) -> Part:
    """The part that makes a staged manifest the next version of its line; a replay if it is one already.

    `details` are kept with the version beside what its writer stated.
    """
    table, place = line.table, require_location(line.table)
    if not 1 <= new.version <= LARGEST_VERSION:
        raise InvalidInput(f"{new.version} is no version: the first is 1", field="version")
    key, scheme = require_key(place, new.manifest_path, ref=line.ref, version=new.version, scheme=new.scheme)
    recorded = await _replayed(ports, line, new.version, key)
    if recorded is not None:
        return Part(done=Done(ids=(table.id,), versions=(new.version,)), before=table, result=recorded)
    data = await _read_manifest(ports, place, key, new.manifest_size)
    if len(data) > KEPT_BYTES:
        await ports.storage.keep(place, key)
    said = {"e_tag": new.e_tag, "metadata": new.metadata, "scheme": scheme.value, **(details or {})}
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
        details={name: value for name, value in said.items() if value is not None},
    )
    attached = Attachment(table=table.id, ref=line.ref, version=new.version, staged=data)
    ended = () if line.deserted is None else (DropLine(table=table.id, ref=line.ref),)
    return Part(
        expects=(HeadIs(table.id, line.ref, line.deserted or line.head),),
        changes=(*ended, commit),
        attachments=(attached,) if len(data) <= KEPT_BYTES else (),
        done=Done(ids=(table.id,), versions=(new.version,)),
        before=table,
    )


async def _replayed(ports: Ports, line: Line, version: int, key: str) -> Version | None:
    """The record of a version that is history already; None if it is the next. `core.versions` decides.

    A branch begins at the version that it was forked from, the main line with 1.
    """
    first = 1 if line.ref == MAIN else version
    rows: tuple[Version, ...] = ()
    if is_behind(line.head, version, first=first):
        rows = await ports.ledger.versions(line.table.id, line.ref, first=version, last=version)
    elif is_gap(line.head, version, first=first):
        await set_strays_aside(ports, line.table, line.ref)
    recorded = rows[0] if rows else None
    verdict = ratify(line.head, Proposed(version=version, file=key), recorded, first=first)
    return recorded if verdict is Verdict.REPLAY else None


def version_taken_error(line: Line, version: int) -> VersionTaken:
    """Also when its record was deleted: a number is never given out twice."""
    return VersionTaken(f"version {version} is taken; the latest is {line.head}", field="version", latest=line.head)


async def _read_manifest(ports: Ports, place: str, key: str, size: int | None) -> bytes:
    try:
        data = await ports.storage.read(place, key, limit=LARGEST_MANIFEST if size is None else size)
    except TooLarge:
        raise InvalidInput(
            f"the manifest has more than the {size or LARGEST_MANIFEST} bytes that it may have", field="manifest_size"
        ) from None
    if data is None:
        raise InvalidInput(f"the manifest {key!r} does not exist", field="manifest_path")
    if size is not None and len(data) != size:
        raise InvalidInput(f"the manifest has {len(data)} bytes, not {size}", field="manifest_size")
    require_manifest(data, key)
    return data


class Described(msgspec.Struct, frozen=True):
    """A table below its ancestors, at a version: None before its first one."""

    chain: Chain
    version: int | None


async def describe_table(
    ports: Ports, caller: Caller, address: Address, *, ref: str = MAIN, version: int | None = None
) -> Described:
    """The table at the newest version of a line, or at another one that must exist."""
    chain = await find_table(ports, caller, address, Privilege.READ)
    head = await require_line(ports, chain[-1], ref)
    if version is not None:
        await _find_version(ports, chain[-1], ref, head, version)
        return Described(chain, version)
    if TRIMMED in chain[-1].doc.details:
        left = await ports.ledger.versions(chain[-1].id, ref, limit=1, descending=True)
        return Described(chain, left[0].version if left else None)
    return Described(chain, None if head is None else head.version)


async def describe_version(
    ports: Ports, caller: Caller, address: Address, ref: str, version: int | None
) -> TableVersion:
    """One version of a line; without a number the newest."""
    table = (await find_table(ports, caller, address, Privilege.READ))[-1]
    return await _find_version(ports, table, ref, await require_line(ports, table, ref), version)


async def _find_version(
    ports: Ports, table: Securable, ref: str, head: Head | None, version: int | None
) -> TableVersion:
    found = None
    if head is not None:
        span = {} if version is None else {"first": version, "last": version}
        # The newest that is left: records of newer ones may have been deleted.
        rows = await ports.ledger.versions(table.id, ref, **span, limit=1, descending=True)
        found = await _kept(ports, table, rows[0], head) if rows else None
    if found is None:
        which = "a version" if version is None else f"version {version}"
        raise VersionNotFound(f"table '{table.name}' does not have {which}", field="version")
    return found


async def list_versions(
    ports: Ports, caller: Caller, address: Address, ref: str, *, token: str | None, limit: int, descending: bool
) -> tuple[list[TableVersion], str | None]:
    """Some versions of a line in order, and the token that continues."""
    table = (await find_table(ports, caller, address, Privilege.READ))[-1]
    head = await require_line(ports, table, ref)
    scope = f"{caller.id}/{table.id}/{ref}/versions/{descending}"
    after = unseal(ports.page_secret, scope, token)
    if head is None:
        return [], None
    first = int(after) + 1 if after and not descending else 0
    last = int(after) - 1 if after and descending else None
    found = await ports.ledger.versions(table.id, ref, first=first, last=last, limit=limit, descending=descending)
    kept: list[TableVersion | None] = []
    for start in range(0, len(found), _ASKED_AT_ONCE):
        some = found[start : start + _ASKED_AT_ONCE]
        kept += await asyncio.gather(*(_kept(ports, table, each, head) for each in some))
    end = (
        1 if descending else head.version
    )  # a branch begins later, and records may be gone: the last page can be empty
    is_last = len(found) < limit or found[-1].version == end
    more = None if is_last else seal(ports.page_secret, scope, str(found[-1].version))
    return [each for each in kept if each is not None], more


async def _kept(ports: Ports, table: Securable, row: Version, head: Head) -> TableVersion | None:
    """The version with its manifest where it lies; None if a client has cleaned it away.

    Lance's own clean-up deletes manifests without telling anybody. The newest is never cleaned away, and a
    writer must hear of it in any case.
    """
    is_published = row.publish is None or row.version <= (head.published or 0)
    if row.version != head.version and not is_published and await _was_cleaned_away(ports, table, row):
        return None
    key = final_key(row) if is_published else await settled_key(ports, table, row)
    if row.version == head.version:
        return shown(table, row, key, row.seq)
    for each in (key, _renamed_key(row)):
        if not await ports.storage.is_gone(require_location(table), each, ask=True):
            return shown(table, row, each, row.seq)
    return None


async def _was_cleaned_away(ports: Ports, table: Securable, row: Version) -> bool:
    """Whether that happened before the version was published: the staged manifest must not be taken for it then."""
    storage, place = ports.storage, require_location(table)
    if not await storage.is_gone(place, final_key(row), ask=True):
        return False
    staged = await storage.read(place, row.file, limit=LARGEST_MANIFEST)
    return staged is not None and await is_cleaned_away(ports, table, row, staged)


def _renamed_key(row: Version) -> str:
    """The manifest under the name of the other scheme, which a client can give to all those of a table."""
    other = NamingScheme.V1 if row.details.get("scheme") == NamingScheme.V2 else NamingScheme.V2
    return manifest_folder(row.ref) + final_name(row.version, other)


def final_key(made: Commit | Version) -> str:
    """Where the manifest of a version lies once it is published, which that of a registered one always was."""
    return made.file if made.publish is None else made.publish.target


async def settled_key(ports: Ports, table: Securable, made: Commit | Version, data: bytes | None = None) -> str:
    """Where the manifest of a version that was not published yet is to be read; `data` is what it says, if known.

    Under its final name where that can be had at once: a reader that meets a staged manifest copies it, and
    complains. Publishing, by which it gets there to stay, is for the chores.
    """
    storage, place, final = ports.storage, require_location(table), final_key(made)
    linked = ports.local.cache(_LINKED)
    if final == made.file or (table.id, made.file) in linked:
        return final
    if await storage.link(place, made.file, final.rpartition("/")[2], data=data):
        linked.put((table.id, made.file), final)
        return final
    # A staged manifest may be gone that was linked before.
    is_only_final = await storage.size(place, made.file) is None and await storage.size(place, final) is not None
    return final if is_only_final else made.file


def shown(table: Securable, made: Commit | Version, key: str, seq: int | None) -> TableVersion:
    """A version as it is told; `key` is where its manifest lies below the table."""
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
