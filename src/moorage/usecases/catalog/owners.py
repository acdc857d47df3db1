"""The principals that own objects and are granted privileges, by their names."""

from __future__ import annotations

from moorage.core.callers import EVERYONE
from moorage.core.errors import InvalidInput
from moorage.core.names import name_key, require_name
from moorage.core.principals import principal_of
from moorage.core.securables import Securable, Shelf
from moorage.ledger.port import Ledger, Step
from moorage.usecases.ports import Ports


async def find_principal(ledger: Ledger, name: str) -> Securable | None:
    """The user, service principal or group of a name."""
    chain = (await ledger.walk((Step(Shelf.PRINCIPAL, name_key(name)),))).chain
    return chain[0] if chain else None


async def require_principal(ports: Ports, name: str, field: str) -> str:
    """The name of an existing principal as the catalog spells it, or InvalidInput.

    A server without authentication has no principals, so it accepts every name.
    """
    require_name(name, field)
    if not ports.access.authenticates:
        return name
    if name_key(name) == EVERYONE:
        return EVERYONE
    found = await find_principal(ports.ledger, name)
    if found is None or principal_of(found).deleted:
        raise InvalidInput(f"there is no user, service principal or group '{name}'", field=field)
    return found.name
