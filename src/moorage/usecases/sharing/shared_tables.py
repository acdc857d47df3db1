"""A table as a recipient sees it: where it is in a share, and which part of it is shared."""

from __future__ import annotations

import msgspec

from moorage.core.ids import SecurableId
from moorage.core.securables import Securable
from moorage.core.shares import Partition, PartitionOp, PartitionValue

__all__ = ["Partition", "PartitionOp", "PartitionValue", "SharedTable"]


class SharedTable(msgspec.Struct, frozen=True, kw_only=True):
    """One table of a share. A recipient reads nothing of the table that this does not allow."""

    share_id: SecurableId
    share: str
    schema: str
    name: str
    id: str
    """Stable as long as the table is shared, also if the table or the share is renamed."""
    table: Securable
    chain: tuple[Securable, ...] = ()
    """The table below its ancestors, outermost first."""
    history: bool = False
    """Whether versions other than the newest may be read, and the change data feed."""
    partitions: tuple[Partition, ...] = ()
    """At least one of these must hold for every shared row. Empty: all rows are shared."""
    start_version: int | None = None
    """The first version that may be read. None: no restriction."""
