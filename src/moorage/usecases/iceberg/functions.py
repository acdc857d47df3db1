"""Functions as Iceberg clients see them: those that are written in SQL and use only types that Iceberg has."""

from __future__ import annotations

from msgspec.structs import replace

from moorage.core.callers import Caller
from moorage.core.errors import SecurableNotFound
from moorage.core.securables import Kind, Securable, Shelf
from moorage.formats.iceberg.documents import Document
from moorage.formats.iceberg.functions import function_metadata
from moorage.usecases.catalog import browse
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.catalog.browse import Page
from moorage.usecases.catalog.relations import ROUTINE
from moorage.usecases.iceberg.lookup import iceberg_name
from moorage.usecases.ports import Ports


async def list_functions(ports: Ports, caller: Caller, namespace: Address, *, token: str | None, limit: int) -> Page:
    """One page of the functions of a namespace; without a token, all of them."""
    items: list[Securable] = []
    async for found in browse.pages(ports, caller, namespace, Shelf.FUNCTION, token=token, limit=limit):
        items += [item for item in found.items if _metadata(item) is not None]
    return replace(found, items=tuple(items))


async def load_function(ports: Ports, caller: Caller, address: Address) -> Document:
    """The metadata of one function."""
    found = _metadata((await browse.get(ports, caller, address))[-1])
    if found is None:
        raise SecurableNotFound(
            f"Iceberg cannot describe function {iceberg_name(address)}: "
            "it is not written in SQL, or uses a type that Iceberg lacks",
            name=str(address),
            kind=str(Kind.FUNCTION),
        )
    return found


def _metadata(function: Securable) -> Document | None:
    routine = function.doc.details.get(ROUTINE)
    if routine is None:
        return None
    return function_metadata(function.id, routine, comment=function.doc.comment, at_ms=function.updated_at_ms)
