"""Converts rows to chains of objects: down a path of names, or up from an id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from moorage.core.ids import SecurableId
from moorage.core.securables import Kind, Securable
from moorage.ledger import rows
from moorage.ledger.port import Found, Listing, Position, Step
from moorage.ledger.postgres.queries import walk_sql, walks_sql

_WIDTH: Final = len(rows.SECURABLE_COLUMNS)

Path = tuple[Step, ...]


def walk_statement(root: SecurableId, paths: Sequence[Path]) -> list[Any]:
    """The statement that walks paths of equal length, and its arguments."""
    depth = len(paths[0])
    if len(paths) == 1:
        return [walk_sql(depth), root, *(part for step in paths[0] for part in (step.shelf.value, step.key))]
    args: list[Any] = [walks_sql(depth), root]
    for n in range(depth):
        args += ([path[n].shelf.value for path in paths], [path[n].key for path in paths])
    return args


def walked(depth: int, found: Sequence[Any]) -> list[Found]:
    """A chain from each row. Many rows begin with the same catalog, which is decoded once."""
    known: dict[SecurableId, Securable] = {}
    return [_chain_from_row(depth, row, known) for row in found]


def _chain_from_row(depth: int, row: Any, known: dict[SecurableId, Securable]) -> Found:
    chain: list[Securable] = []
    for n in range(depth):
        first = 3 + n * _WIDTH
        id = row[first]
        if id is None:
            break
        if n + 1 == depth:
            chain.append(rows.securable(row[first : first + _WIDTH], rows.head(row[first + _WIDTH :])))
            break
        ancestor = known.get(id)
        if ancestor is None:
            ancestor = known[id] = rows.securable(row[first : first + _WIDTH])
        chain.append(ancestor)
    return Found(Position(*row[:3]), tuple(chain))


def climbed(ids: Sequence[SecurableId], found: Sequence[Any]) -> list[Found]:
    """The chain of each id with its ancestors, from the rows of all ids and their ancestors."""
    listing = listed(found)
    known = {one.id: one for one in listing.items}
    return [Found(listing.position, _chain_of(id, known)) for id in ids]


def _chain_of(id: SecurableId, known: dict[SecurableId, Securable]) -> tuple[Securable, ...]:
    chain: list[Securable] = []
    while (one := known.get(id)) is not None:
        if chain and one.kind is Kind.METASTORE:
            break
        chain.append(one)
        id = one.parent
    chain.reverse()
    return tuple(chain)


def listed(found: Sequence[Any]) -> Listing:
    """From securable, head and ledger position. A first row without a securable means an empty listing."""
    items = () if found[0][0] is None else tuple([rows.securable(row, rows.head(row[_WIDTH:])) for row in found])
    return Listing(Position(*found[0][-3:]), items)
