"""A ledger with many principals and grants, for measurements of what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from moorage import fresh
from moorage.core.entries import Change
from moorage.core.ids import SecurableId
from moorage.core.principals import Principal, TokenDetails, doc_of
from moorage.core.securables import Kind
from moorage.core.tokens import digest_of, new_token
from moorage.ledger.port import Ledger
from moorage.testing import builders as make

USERS: Final = 10_000
GROUPS: Final = 1_000
HOLDERS: Final = 1_000
"""The users who hold grants on each table."""
_SLICE: Final = 900


async def add_principals(ledger: Ledger, with_tokens: Sequence[int]) -> list[str]:
    """Create the users u0 to u9999 in the nested groups g0 to g999. Returns tokens of the users with these numbers."""
    groups = [
        make.create(Kind.GROUP, ledger.root, f"g{n}", doc=doc_of(Principal(groups=(f"g{n // 2}",) if n else ())))
        for n in range(GROUPS)
    ]
    users = [
        make.create(Kind.USER, ledger.root, f"u{n}", doc=doc_of(Principal(groups=(f"g{n % GROUPS}",))))
        for n in range(USERS)
    ]
    texts, tokens = [], []
    for number in with_tokens:
        id = fresh.securable_id()
        texts.append(new_token(id, fresh.secret()))
        details = TokenDetails(digest=digest_of(texts[-1]))
        tokens.append(make.create(Kind.TOKEN, users[number].id, id, id=id, doc=doc_of(details)))
    created: list[Change] = [*groups, *users, *tokens]
    for start in range(0, len(created), _SLICE):
        await make.add(ledger, *created[start : start + _SLICE])
    return texts


async def add_grants(ledger: Ledger, catalog: SecurableId, tables: Sequence[SecurableId]) -> None:
    """Let everyone use the catalog, u0 to u999 read and write all of its tables, and u4777 read every second one."""
    await make.add(ledger, make.set_grants(catalog, **{"account users": ["USE CATALOG", "USE SCHEMA"]}))
    holders = {f"u{n}": ["SELECT", "MODIFY"] for n in range(HOLDERS)}
    for number, table in enumerate(tables):
        half = {"u4777": ["SELECT"]} if number % 2 else {}
        await make.add(ledger, make.set_grants(table, **holders, **half))
