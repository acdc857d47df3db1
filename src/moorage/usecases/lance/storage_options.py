"""The options by which Lance's clients open the files of a table, with a key that opens this table only."""

from __future__ import annotations

import logging

from moorage.core.callers import Caller
from moorage.core.errors import Unavailable, Unsupported
from moorage.core.locations import scheme_of
from moorage.core.privileges import Privilege
from moorage.core.vended import VendedSas, VendedToken
from moorage.usecases.catalog.addresses import Chain
from moorage.usecases.catalog.credentials import FileAccess, open_locations
from moorage.usecases.ports import Ports

log = logging.getLogger(__name__)


async def storage_options(ports: Ports, caller: Caller, chain: Chain, *, vend: bool | None) -> dict[str, str] | None:
    """The options for a caller that was admitted to read the table. None if it needs none, or if the server vends none.

    `vend` is the client's wish. If the client did not state one, a store that issues no key now is no error: the client
    may have a key of its own.
    """
    locations = chain[-1].locations
    if vend is False or not locations or scheme_of(locations[0]) == "file":
        return None
    try:
        access = await open_locations(ports, locations, write=ports.access.allow(caller, Privilege.MODIFY, chain))
    except (Unsupported, Unavailable) as error:
        if vend and isinstance(error, Unavailable):
            raise
        log.info("vended no key for a Lance table: %s", error.message)
        return None
    return to_options(access)


async def new_storage_options(ports: Ports, locations: tuple[str, ...], *, vend: bool | None) -> dict[str, str] | None:
    """The options for the caller that has just created or staged a table. That was done and must not fail now."""
    if vend is False or scheme_of(locations[0]) == "file":
        return None
    try:
        return to_options(await open_locations(ports, locations, write=True))
    except (Unsupported, Unavailable) as error:
        log.info("vended no key for a new Lance table: %s", error.message)
        return None


def to_options(access: FileAccess) -> dict[str, str] | None:
    """pylance asks for the table again before `expires_at_millis`, and gets the next key then."""
    key = access.key
    if isinstance(key, VendedToken):
        return {"google_storage_token": key.token, "expires_at_millis": str(key.expires_at_ms)}
    if isinstance(key, VendedSas):
        return {
            "azure_storage_account_name": key.account.partition(".")[0],
            "azure_storage_sas_token": key.sas_token,
            "expires_at_millis": str(key.expires_at_ms),
        }
    if key is None or access.store is None:
        return None
    return {
        "aws_access_key_id": key.access_key_id,
        "aws_secret_access_key": key.secret_access_key,
        "aws_session_token": key.session_token,
        "expires_at_millis": str(key.expires_at_ms),
        "aws_endpoint": access.store.endpoint,
        "aws_region": access.store.region,
        "aws_virtual_hosted_style_request": "false" if access.store.path_style else "true",
        "allow_http": "true" if access.store.endpoint.startswith("http://") else "false",
    }
