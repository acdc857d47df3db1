"""The manifests in a table's folder, including those that were written without the catalog."""

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
from moorage.usecases.lance.lookup import line_head
from moorage.usecases.ports import Ports

log = logging.getLogger(__name__)

MAX_MANIFEST_BYTES = 1024 * 1024 * 1024


class FoundManifest(msgspec.Struct, frozen=True):
    """A manifest under its final name."""

    ref: str
    version: int
    scheme: NamingScheme
    file: Listed


async def list_manifests(ports: Ports, location: str, ref: str) -> list[FoundManifest]:
    """The manifests of a line, in version order."""
    folder = manifest_folder(ref)
    found = {}
    for listed in await ports.storage.list(location, folder):
        if (named := version_in(listed.path[len(folder) :])) is not None:
            found[named[0]] = FoundManifest(ref, *named, listed)
    return [found[version] for version in sorted(found)]


async def is_cleaned_up(
    ports: Ports, table: Securable, made: Staged | Version, manifest: bytes, *, final: str | None = None
) -> bool:
    """Whether a client cleaned up a version before it was published. `final` is None if it is known to be missing.

    Clean-up also deletes the version's transaction file, but not the staged manifest, which it does not recognise. A
    version that a power cut removed has lost its staged manifest too. The newest version is never cleaned up.
    """
    head = await line_head(ports, table, made.ref)
    if head is None or head.version == made.version:
        return False
    location, is_missing = require_location(table), ports.storage.is_missing
    if final is not None and not await is_missing(location, final, remote=True):
        return False
    name = await asyncio.to_thread(transaction_of, manifest)  # a million fragments may precede the name
    if name is None or not await is_missing(location, transaction_path(made.ref, name), remote=True):
        return False
    return not await is_missing(location, made.file, remote=True)


async def set_unratified_aside(ports: Ports, table: Securable, ref: str) -> None:
    """Set aside manifests that a client wrote under final names without the catalog; VersionTaken if there were any.

    pylance writes them where it has no catalog: in a commit by the table's location, and in an unpickled dataset. The
    catalog never returns such a version, but the pylance of every writer finds it in the folder, builds on it, and
    requests the next number, so all writes to the table would fail. Therefore the manifest gets a staged name, which
    pylance ignores. In a folder that the catalog does not own it is left alone, and the error names the file.
    """
    # The files are listed before the head is read, so a listed file above the head was never ratified.
    listed = await list_manifests(ports, require_location(table), ref)
    head = await ports.ledger.head(table.id, ref)
    latest = None if head is None else head.version
    unratified = [each for each in listed if each.version > (latest or 0)]
    if not unratified:
        return
    first = unratified[0]
    problem = f"version {first.version} was written without the catalog, whose latest version is {latest or 'none'}"
    if table.doc.table is None or not table.doc.table.managed:
        raise InvalidInput(
            f"{problem}: register the dataset again with mode 'overwrite' to add it to the catalog, or move "
            f"{first.file.path!r} out of the folder",
            field="version",
        )
    for each in unratified:
        await _set_aside(ports, require_location(table), each.file.path)
    log.warning("%s: set aside", problem, extra={"fields": {"table": table.id, "ref": ref}})
    raise VersionTaken(
        f"{problem}: its manifest was set aside; reload the table and retry", field="version", latest=latest
    )


async def _set_aside(ports: Ports, location: str, path: str) -> None:
    data = await ports.storage.read(location, path, limit=MAX_MANIFEST_BYTES)
    if data is not None:
        await ports.storage.put_new(location, f"{path}-{(await digest_of(data))[:32]}", data)
        await ports.storage.delete(location, path)
