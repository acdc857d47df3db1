"""What there is to say of a Lance table: what the ledger knows, and what only its files tell."""

from __future__ import annotations

import msgspec

from moorage.core.errors import InvalidInput
from moorage.core.securables import MAIN
from moorage.datasets import description
from moorage.formats.lance.statistics import TableContents
from moorage.usecases.catalog.addresses import Address, Chain
from moorage.usecases.lance.refs import get_tag
from moorage.usecases.lance.versions import describe_table
from moorage.usecases.lance.work import read_table
from moorage.usecases.ports import Errand, Ports


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """A table below its ancestors, at a version: None before its first one. Its contents if they were asked for."""

    chain: Chain
    version: int | None
    contents: TableContents | None


async def describe(
    ports: Ports,
    errand: Errand,
    address: Address,
    *,
    ref: str = MAIN,
    version: int | None = None,
    tag: str | None = None,
    detailed: bool = False,
) -> Described:
    """The table at the newest version of a line, at another one, or at the one that a tag stands for."""
    if tag is not None:
        if version is not None or ref != MAIN:
            raise InvalidInput("tag: a tag stands for a version of a branch already; give no other", field="tag")
        tagged = await get_tag(ports, errand, address, tag)
        ref, version = tagged.branch or MAIN, tagged.version
    found = await describe_table(ports, errand.caller, address, ref=ref, version=version)
    contents = None
    if detailed and found.version is not None:
        branch = None if ref == MAIN else ref
        contents = await read_table(
            ports, errand, address, description.table_contents, branch=branch, version=found.version
        )
    return Described(chain=found.chain, version=found.version, contents=contents)
