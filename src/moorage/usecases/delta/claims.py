"""Conversions that a client states with a commit. The server reads the file before it relies on the statement."""

from __future__ import annotations

from typing import Any

import msgspec

from moorage.core.errors import InvalidInput
from moorage.core.securables import Securable
from moorage.formats.delta.paths import Inside
from moorage.formats.delta.uniform import IcebergBlock
from moorage.usecases.delta.lookup import DELTA, UNIFORM, is_managed, is_uniform
from moorage.usecases.ports import Ports


async def require_conversion(
    ports: Ports,
    inside: Inside,
    root: str,
    block: IcebergBlock,
    version: int,
    *,
    data: bytes,
    table: Securable | None = None,
) -> None:
    """Raise InvalidInput if the file of a block does not describe the version that the block states.

    `data` is the commit of that version, and `table` the table before it, if there is one.

    A file that does not exist is accepted, as Unity does. Iceberg clients then read the server's own conversion. Blocks
    that are invalid in themselves are left to `require_uniform`.
    """
    location, converter = block.metadata_location, ports.formats.converter_of(DELTA)
    if converter is None or not location or not inside(location) or block.converted_delta_version != version:
        return
    await converter.require_conversion(ports, root, location, version, data=data, table=table)


async def is_contradicted(ports: Ports, inside: Inside, table: Securable, version: int, data: bytes) -> bool:
    """Whether the commit of a version contradicts the conversion of it that a client stated before.

    A request that creates a table may state the conversion of version 1, which can be compared only now.
    """
    stated: dict[str, Any] | None = table.doc.details.get(UNIFORM)
    if stated is None or stated["converted_delta_version"] != version:
        return False
    block = msgspec.convert(stated, IcebergBlock)
    try:
        await require_conversion(ports, inside, table.doc.location or "", block, version, data=data, table=table)
    except InvalidInput:
        return True
    return False


async def converted_block(ports: Ports, table: Securable) -> dict[str, Any] | None:
    """The block that describes the newest conversion of a table, by this server or by a client."""
    stated: dict[str, Any] | None = table.doc.details.get(UNIFORM)
    converter = ports.formats.converter_of(DELTA)
    if converter is None or not is_managed(table):
        return stated
    # A table that only its catalog makes readable has no property, and most tables without one are not converted.
    is_certain = stated is not None or is_uniform(table, ())
    found = await converter.last_projection(ports, table, cached_only=not is_certain)
    if found is None or not found.is_own or not (is_certain or await _is_uniform(ports, table)):
        return stated
    return {
        "metadata_location": found.metadata_location,
        "converted_delta_version": found.version,
        "converted_delta_timestamp": found.converted_at,
    }


async def _is_uniform(ports: Ports, table: Securable) -> bool:
    chain = (await ports.ledger.lineage(table.id)).chain
    return bool(chain) and is_uniform(chain[-1], chain[:-1])
