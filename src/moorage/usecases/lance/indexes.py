"""The indexes of Lance tables."""

from __future__ import annotations

from moorage.core.entries import Commit
from moorage.datasets import indexes
from moorage.formats.lance.indexes import Index, IndexContent, IndexStats
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.catalog.paging import seal, unseal
from moorage.usecases.lance.idempotent import build_once, change_once
from moorage.usecases.lance.work import WorkResult, read_table
from moorage.usecases.ports import Errand, Ports


async def create_index(
    ports: Ports, errand: Errand, address: Address, index: Index, *, branch: str | None, scalar: bool
) -> WorkResult[None]:
    """Build an index. With `scalar`, a vector index is refused."""
    return await build_once(ports, errand, address, _nothing, indexes.create, index, branch=branch, scalar=scalar)


async def list_indexes(
    ports: Ports,
    errand: Errand,
    address: Address,
    *,
    branch: str | None,
    version: int | None,
    token: str | None,
    limit: int,
) -> tuple[list[IndexContent], str | None]:
    """A page of indexes in name order, and the token of the next page."""
    scope = f"{errand.caller.id}/{address}/{branch}/indexes"
    after = unseal(ports.page_secret, scope, token)
    every = await read_table(ports, errand, address, indexes.list_all, branch=branch, version=version)
    found = [each for each in every if each.index_name > after]
    more = seal(ports.page_secret, scope, found[limit - 1].index_name) if len(found) > limit else None
    return found[:limit], more


async def index_stats(
    ports: Ports, errand: Errand, address: Address, name: str, *, branch: str | None, version: int | None
) -> IndexStats:
    return await read_table(ports, errand, address, indexes.stats, name, branch=branch, version=version)


async def drop_index(
    ports: Ports, errand: Errand, address: Address, name: str, *, branch: str | None
) -> WorkResult[None]:
    return await change_once(ports, errand, address, _nothing, indexes.drop, name, branch=branch)


async def _nothing(_: Commit) -> None:
    """The response has nothing but the entry."""
