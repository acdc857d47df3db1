"""The arguments of a job, as a caller sees them."""

from __future__ import annotations

from typing import Any

from moorage.core.callers import Caller
from moorage.core.jobs import PIPELINE
from moorage.core.pipelines import SOURCES
from moorage.core.privileges import Privilege
from moorage.core.securables import Kind
from moorage.usecases.catalog.addresses import Address, find_chain
from moorage.usecases.ports import Ports


async def visible_args(ports: Ports, caller: Caller, kind: str, args: dict[str, Any]) -> dict[str, Any]:
    """Those of a run of a pipeline have the versions of tables that its author has named, also of hidden ones."""
    named = args.get(SOURCES)
    if kind != PIPELINE or not isinstance(named, dict):
        return args
    visible = {name: version for name, version in named.items() if await _may_see(ports, caller, name)}
    return {**args, SOURCES: visible}


async def _may_see(ports: Ports, caller: Caller, name: str) -> bool:
    path = tuple(name.split("."))
    chain = (await find_chain(ports.ledger, Address(Kind.TABLE, path))).chain
    return len(chain) == len(path) and ports.access.allow(caller, Privilege.BROWSE, chain)
