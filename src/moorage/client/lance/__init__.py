"""Lance tables for pylance and Spark. Only this package imports pylance; the rest of the client does not need it."""

from moorage.client.lance.lake import Lake
from moorage.client.lance.transaction import Transaction

__all__ = ["Lake", "Transaction"]
