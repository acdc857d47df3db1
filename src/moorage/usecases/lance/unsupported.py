"""Operations of the Lance specification that this catalog does not support. Access is checked before the refusal."""

from __future__ import annotations

from moorage.core.callers import Caller
from moorage.core.errors import Unsupported
from moorage.core.privileges import Privilege
from moorage.usecases.catalog.addresses import Address, reach_parent
from moorage.usecases.lance.lookup import find_table
from moorage.usecases.ports import Ports


async def refuse_view(ports: Ports, caller: Caller, address: Address) -> None:
    await reach_parent(ports, caller, address)
    raise Unsupported("this catalog does not support materialized views")


async def refuse_backfill(ports: Ports, caller: Caller, address: Address) -> None:
    await find_table(ports, caller, address, Privilege.MODIFY)
    raise Unsupported("this catalog does not support virtual columns, so there is nothing to backfill")
