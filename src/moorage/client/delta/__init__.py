"""Managed Delta tables for Python programs and Spark. Only this package writes Delta's log and data files."""

from moorage.client.delta.refusal import TableRefused
from moorage.client.delta.tables import DeltaTables, TableState, Transaction

__all__ = ["DeltaTables", "TableRefused", "TableState", "Transaction"]
