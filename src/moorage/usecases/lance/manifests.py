"""The manifests that lie in the folder of a table, whoever put them there."""

from __future__ import annotations

import asyncio
import logging

import msgspec

from moorage.core.errors import InvalidInput, VersionTaken
from moorage.core.locations import require_location
from moorage.core.securables import Securable
from moorage.formats.lance.manifests import (
    NamingScheme,
    manifest_folder,
    transaction_of,
    transaction_path,
    version_in,
)
from moorage.ledger.port import Staged, Version
from moorage.storage.digests import digest_of
from moorage.storage.port import Listed
from moorage.usecases.lance.lookup import newest
from moorage.usecases.ports import Ports

log = logging.getLogger(__name__)

LARGEST_MANIFEST = 1024 * 1024 * 1024


class Found(msgspec.Struct, frozen=True):
    """A manifest under its final name."""

    ref: str
    version: int
    scheme: NamingScheme
    file: Listed


async def manifests_in(ports: Ports, place: str, ref: str) -> list[Found]:
    """The manifests of a line, in the order of their versions."""
    folder = manifest_folder(ref)
    found = {}
    for listed in await ports.storage.list(place, folder):
        if (named := version_in(listed.path[len(folder) :])) is not None:
            found[named[0]] = Found(ref, *named, listed)
    return [found[version] for version in sorted(found)]


async def is_cleaned_away(
    ports: Ports, table: Securable, made: Staged | Version, manifest: bytes, *, final: str | None = None
) -> bool:
    """Whether a client has cleaned a version away before it was published. `final` is None if it is known to be gone.

    Clean-up deletes the file of the version's transaction, too, and leaves the staged manifest, of which it does not
    know. What a power cut took has lost that as well. The newest version is never cleaned away.
    """
    head = await newest(ports, table, made.ref)
    if head is None or head.version == made.version:
        return False
    place, is_gone = require_location(table), ports.storage.is_gone
    if final is not None and not await is_gone(place, final, ask=True):
        return False
    name = await asyncio.to_thread(transaction_of, manifest)  # it may list a million fragments before
    if name is None or not await is_gone(place, transaction_path(made.ref, name), ask=True):
        return False
    return not await is_gone(place, made.file, ask=True)


async def set_strays_aside(ports: Ports, table: Securable, ref: str) -> None:
    """Free the final names that somebody took without asking the catalog; VersionTaken if there were any.

    pylance does that where it knows of no catalog: in a commit by the table's location, in a dataset that came out
    of a pickle. No reader ever sees such a version, but every writer's pylance finds it in the folder, builds
    on it, and asks for the number after it: nobody could write to the table any more. So it gets a staged name,
    which pylance passes over. In a folder that is not ours it is left alone, and the refusal tells where it lies.
    """
    # Listed before the head is read: a file that was there, and is above the head, was not granted.
    listed = await manifests_in(ports, require_location(table), ref)
    head = await ports.ledger.head(table.id, ref)
    latest = None if head is None else head.version
    strays = [each for each in listed if each.version > (latest or 0)]
    if not strays:
        return
    first = strays[0]
    told = f"version {first.version} was written past the catalog, whose latest is {latest or 'none'}"
    if table.doc.table is None or not table.doc.table.managed:
        raise InvalidInput(
            f"{told}: register the dataset once more, with mode 'overwrite', to take it in, or move "
            f"{first.file.path!r} out of the folder",
            field="version",
        )
    for stray in strays:
        await _set_aside(ports, require_location(table), stray.file.path)
    log.warning("%s: set aside", told, extra={"fields": {"table": table.id, "ref": ref}})
    raise VersionTaken(f"{told}: it was set aside; open the table again", field="version", latest=latest)


async def _set_aside(ports: Ports, place: str, path: str) -> None:
    data = await ports.storage.read(place, path, limit=LARGEST_MANIFEST)
    if data is not None:
        await ports.storage.put_new(place, f"{path}-{(await digest_of(data))[:32]}", data)
        await ports.storage.delete(place, path)
