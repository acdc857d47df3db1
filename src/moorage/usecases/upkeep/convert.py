"""Conversion of tables for clients of another format, soon after each version.

A client that loads a table gets its newest version in any case, so losing this work is safe: the load then does it.
"""

from __future__ import annotations

import logging

from moorage.core.errors import MoorageError, Unavailable, Unsupported
from moorage.core.ids import SecurableId
from moorage.usecases.ports import Ports

log = logging.getLogger(__name__)


async def convert_due(ports: Ports) -> int:
    """Convert the tables that got new versions on this server. Returns the number of converted tables."""
    waiting = ports.local.unconverted
    return sum([await _convert(ports, waiting.pop()) for _ in range(len(waiting))])


async def _convert(ports: Ports, id: SecurableId) -> bool:
    chain = (await ports.ledger.lineage(id)).chain
    is_live = bool(chain) and all(each.is_live for each in chain)
    if not is_live or ports.formats.readable_as(chain[-1], chain[:-1]) is None:
        return False
    try:
        await ports.formats.project(ports, chain[-1])
    except Unsupported as error:  # recorded with its reason
        log.info("%s", error.message, extra={"fields": {"table": id}})
        return False
    except Unavailable:
        ports.local.unconverted.add(id)
        raise
    except MoorageError as error:
        log.error("table %s cannot be converted: %s", id, error.message)
        return False
    return True
