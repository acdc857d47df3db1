"""What an operator does to a ledger without a server."""

from __future__ import annotations

from pathlib import Path

from moorage.server.compose import open_ledger
from moorage.server.settings import Settings
from moorage.usecases.identity.administrator import reset_administrator


async def reset_token(*, data: Path | None, database: str | None) -> str:
    """Give the administrator of a ledger a new token, and return it."""
    settings = Settings(database=database) if data is None else Settings(data=data)
    ledger = await open_ledger(settings)
    try:
        return await reset_administrator(ledger)
    finally:
        await ledger.close()
