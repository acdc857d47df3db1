"""The description of a Lance table: from the ledger and, on request, from its files."""

from __future__ import annotations

import msgspec

from moorage.core.errors import InvalidInput
from moorage.core.securables import MAIN
from moorage.datasets import description
from moorage.formats.lance.statistics import TableContents
from moorage.usecases.catalog.addresses import Address, Chain
from moorage.usecases.lance.refs import get_tag
from moorage.usecases.lance.versions import table_at_version
from moorage.usecases.lance.work import read_table
from moorage.usecases.ports import Errand, Ports


class TableDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A table with its ancestors, at a version (None if it has none yet), and its contents if requested."""

    chain: Chain
    version: int | None
    contents: TableContents | None


async def describe_table(
    ports: Ports,
    errand: Errand,
    address: Address,
    *,
    ref: str = MAIN,
    version: int | None = None,
    tag: str | None = None,
    detailed: bool = False,
) -> TableDescription:
    """Describe the table at the newest version of a line, at a given version, or at the version that a tag names."""
    if tag is not None:
        if version is not None or ref != MAIN:
            raise InvalidInput(
                "tag: a tag already names a branch and a version; send it without branch and version", field="tag"
            )
        tagged = await get_tag(ports, errand, address, tag)
        ref, version = tagged.branch or MAIN, tagged.version
    found = await table_at_version(ports, errand.caller, address, ref=ref, version=version)
    contents = None
    if detailed and found.version is not None:
        branch = None if ref == MAIN else ref
        contents = await read_table(
            ports, errand, address, description.table_contents, branch=branch, version=found.version
        )
    return TableDescription(chain=found.chain, version=found.version, contents=contents)
