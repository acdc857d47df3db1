"""Lance tables for pylance and for Spark. What lives here imports pylance; the rest of the client does without."""

from moorage.client.lance.lake import Lake
from moorage.client.lance.transaction import Transaction

__all__ = ["Lake", "Transaction"]
