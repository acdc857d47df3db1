"""The metastore: the root of all catalogs."""

from __future__ import annotations

from moorage.access.port import require
from moorage.core.callers import Caller
from moorage.core.ids import SecurableId
from moorage.core.privileges import Privilege
from moorage.usecases.ports import Ports


def identify(ports: Ports, caller: Caller) -> SecurableId:
    """Its id, by which Delta's clients recognise the catalog that a table belongs to."""
    require(ports.access, caller, Privilege.BROWSE, ())
    return ports.ledger.root
