"""Lance namespaces: a list of names, of which the first is a catalog."""

from __future__ import annotations

from enum import Enum

from msgspec.structs import replace

from moorage.core.callers import Caller
from moorage.core.errors import NotFound
from moorage.core.securables import Doc, Securable
from moorage.usecases.catalog import browse, objects
from moorage.usecases.catalog.addresses import Address, find_chain
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle_one
from moorage.usecases.settling.transact import SameTransaction


class IfNamespaceExists(Enum):
    """What to do if the namespace already exists."""

    CREATE = "create"
    """Refuse."""
    EXIST_OK = "exist_ok"
    """Keep it as it is."""
    OVERWRITE = "overwrite"
    """Drop it with its contents, and create an empty one."""


async def create_namespace(
    ports: Ports, errand: Errand, address: Address, properties: dict[str, str], mode: IfNamespaceExists
) -> Securable:
    """Create a namespace; the new one, or the existing one if the mode keeps it."""
    if mode is IfNamespaceExists.EXIST_OK:
        held = (await find_chain(ports.ledger, address)).chain
        if len(held) == len(address.path):
            return (await browse.get(ports, errand.caller, address))[-1]
    doc = Doc(properties=properties)
    if mode is IfNamespaceExists.OVERWRITE:
        return await settle_one(ports, errand, lambda caller: _prepare_overwrite(ports, caller, address, doc))
    return await objects.create(ports, errand, address, doc, field="id")


async def _prepare_overwrite(ports: Ports, caller: Caller, address: Address, doc: Doc) -> Part:
    held = (await find_chain(ports.ledger, address)).chain
    if len(held) < len(address.path):
        return await objects.prepare_create(ports, caller, address, doc, field="id")
    drop = await objects.prepare_drop(ports, caller, address, cascade=True)
    together = SameTransaction(released=frozenset({held[-1].id}))
    create = await objects.prepare_create(ports, caller, address, doc, together=together, field="id")
    # The creation is first, because the response shows the first change.
    return replace(create, expects=(*drop.expects, *create.expects), changes=(*create.changes, *drop.changes))


async def drop_namespace(
    ports: Ports, errand: Errand, address: Address, *, skip: bool, cascade: bool
) -> Securable | None:
    """Drop a namespace; the dropped one, or None if it does not exist and `skip` allows that."""
    try:
        return await objects.drop(ports, errand, address, cascade=cascade)
    except NotFound:
        if not skip:
            raise
        return None
