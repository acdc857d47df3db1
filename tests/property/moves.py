"""Random drafts for the state of a model: valid ones, outdated ones, and ones that conflict with others."""

from collections.abc import Callable, Sequence

from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from msgspec.structs import replace

from moorage.core.entries import (
    AccessIs,
    Draft,
    Empty,
    Expect,
    FloorAtMost,
    HeadIs,
    IdempotencyKey,
    Live,
    LocationFree,
    NameFree,
    Refused,
    RevisionIs,
)
from moorage.core.ids import SecurableId
from moorage.core.locations import normalize_location
from moorage.core.names import name_key
from moorage.core.securables import MAIN, SHELF_OF, Kind, Securable
from moorage.testing import builders as make
from moorage.testing.model import Model

# Few names, so that drafts conflict. Some of them are equal to the catalog.
NAMES = st.sampled_from(["a", "A", "b", "Straße", "STRASSE", "é"])
PATHS = st.sampled_from(["s3://b/x", "s3://b/x/y", "s3://b/x/y/z", "s3://b/x1", "s3://b/w"])
REFS = st.sampled_from([MAIN, MAIN, "dev"])
OFTEN = st.sampled_from([True, True, True, False])

Move = Callable[[DataObject, Model], Draft | None]


def pick(data: DataObject, found: Sequence[Securable]) -> Securable | None:
    return data.draw(st.sampled_from(list(found))) if found else None


def live(model: Model, *kinds: Kind) -> list[Securable]:
    return [one for one in model.of_kind(*kinds) if model.is_live(one.id)]


def revision_is(one: Securable) -> RevisionIs:
    return RevisionIs(one.id, one.revision)


def create(data: DataObject, model: Model) -> Draft | None:
    kind = data.draw(
        st.sampled_from([Kind.CATALOG, Kind.NAMESPACE, Kind.TABLE, Kind.TABLE, Kind.VIEW, Kind.STAGING_TABLE])
    )
    inside = {Kind.CATALOG: [Kind.METASTORE], Kind.NAMESPACE: [Kind.CATALOG, Kind.NAMESPACE]}
    parent = pick(data, live(model, *inside.get(kind, [Kind.NAMESPACE])))
    if parent is None or len(model.objects) > 25:
        return None
    path = data.draw(PATHS) if kind is Kind.STAGING_TABLE or (kind is Kind.TABLE and data.draw(st.booleans())) else None
    held = None if path is None else normalize_location(path)
    lifetime = 1000 if kind is Kind.STAGING_TABLE else None
    new = make.create(kind, parent.id, data.draw(NAMES), place=held, lifetime_ms=lifetime)
    expects: list[Expect] = [Live(parent.id), make.name_free(new), *([] if held is None else [LocationFree(held)])]
    first = [make.commit(new.id, 0)] if kind is Kind.TABLE and data.draw(OFTEN) else []
    return make.draft(new, *first, expects=expects)


def settle_staging_table(data: DataObject, model: Model) -> Draft | None:
    """A staging table becomes a table with its id and location."""
    staged = pick(data, live(model, Kind.STAGING_TABLE))
    if staged is None:
        return None
    held = next(path for path, holder in model.locations.items() if holder == staged.id)
    table = make.table(staged.parent, data.draw(NAMES), path=held, id=staged.id)
    expects: list[Expect] = [Live(staged.id), revision_is(staged), make.name_free(table)]
    return make.draft(make.erase(staged.id), table, make.commit(table.id, 0), expects=expects)


def commit(data: DataObject, model: Model) -> Draft | None:
    tables = live(model, Kind.TABLE) if data.draw(OFTEN) else model.of_kind(Kind.TABLE)
    if not tables:
        return None
    chosen = data.draw(st.lists(st.sampled_from(tables), min_size=1, max_size=3, unique_by=lambda one: one.id))
    changes, expects = [], []
    for table in chosen:
        ref = data.draw(REFS)
        head = model.lines.get((table.id, ref))
        version = -1 if head is None else head.version
        if not data.draw(OFTEN):
            version += data.draw(st.sampled_from([-1, 1]))
        expects.append(HeadIs(table.id, ref, None if version < 0 else version))
        high_water_mark = data.draw(st.none() | st.integers(0, 100))
        count = data.draw(st.sampled_from([1, 1, 2]))
        changes += [make.commit(table.id, version + 1 + n, ref=ref, row_id_mark=high_water_mark) for n in range(count)]
    if any(change.version < 0 for change in changes):
        return None
    return make.draft(*changes, expects=expects)


def raise_floor(data: DataObject, model: Model) -> Draft | None:
    lines = list(model.lines)
    if not lines:
        return None
    table, ref = data.draw(st.sampled_from(lines))
    version = data.draw(st.integers(0, model.lines[table, ref].version))
    kept = [FloorAtMost(table, ref, version)] if data.draw(st.booleans()) else []
    return make.draft(make.raise_floor(table, version, ref), expects=[Live(table), *kept])


def drop_versions(data: DataObject, model: Model) -> Draft | None:
    lines = list(model.lines)
    if not lines:
        return None
    table, ref = data.draw(st.sampled_from(lines))
    if ref != MAIN and data.draw(st.booleans()):
        return make.draft(make.drop_line(table, ref), expects=[Live(table)])
    last = data.draw(st.integers(0, model.lines[table, ref].version))
    return make.draft(make.drop_versions(table, data.draw(st.integers(0, last)), last, ref), expects=[Live(table)])


def update(data: DataObject, model: Model) -> Draft | None:
    one = pick(data, model.of_kind(Kind.CATALOG, Kind.NAMESPACE, Kind.TABLE, Kind.VIEW))
    if one is None:
        return None
    owner = data.draw(st.sampled_from([None, None, make.BOB]))
    path = data.draw(PATHS) if one.kind is Kind.TABLE and data.draw(st.booleans()) else None
    held = None if path is None else normalize_location(path)
    change = make.update(one.id, owner=owner, holds=held, comment=data.draw(NAMES))
    moved = [] if held is None else [LocationFree(held, one.id)]
    return make.draft(change, expects=[Live(one.id), revision_is(one), AccessIs(model.access_seq), *moved])


def rename(data: DataObject, model: Model) -> Draft | None:
    one = pick(data, live(model, Kind.TABLE, Kind.VIEW))
    parent = pick(data, live(model, Kind.NAMESPACE))
    if one is None or parent is None:
        return None
    name = data.draw(NAMES)
    expects: list[Expect] = [Live(one.id), revision_is(one), Live(parent.id), make.relation_free(parent.id, name)]
    return make.draft(make.rename(one.id, parent.id, name), expects=expects)


def swap(data: DataObject, model: Model) -> Draft | None:
    """Two or three relations exchange their names."""
    found = live(model, Kind.TABLE, Kind.VIEW)
    if len(found) < 2:
        return None
    chosen = data.draw(st.lists(st.sampled_from(found), min_size=2, max_size=3, unique_by=lambda one: one.id))
    changes = [
        make.rename(one.id, other.parent, other.name)
        for one, other in zip(chosen, chosen[1:] + chosen[:1], strict=True)
    ]
    free = [make.relation_free(one.parent, one.name) for one in chosen]
    return make.draft(*changes, expects=[*map(revision_is, chosen), *[Live(one.id) for one in chosen], *free])


def drop(data: DataObject, model: Model) -> Draft | None:
    one = pick(data, live(model, Kind.CATALOG, Kind.NAMESPACE, Kind.TABLE, Kind.TABLE, Kind.VIEW))
    if one is None:
        return None
    restricted = [] if data.draw(st.booleans()) else [Empty(one.id)]
    return make.draft(make.drop(one.id, hold_ms=100), expects=[Live(one.id), revision_is(one), *restricted])


def replace_table(data: DataObject, model: Model) -> Draft | None:
    """One draft drops a table and creates another with its name."""
    one = pick(data, live(model, Kind.TABLE))
    if one is None:
        return None
    new = make.table(one.parent, one.name)
    return make.draft(
        new, make.drop(one.id, hold_ms=100), expects=[Live(one.id), revision_is(one), make.name_free(new)]
    )


def undrop(data: DataObject, model: Model) -> Draft | None:
    one = pick(data, [one for one in model.objects.values() if not one.is_live])
    if one is None:
        return None
    name = one.name if data.draw(st.booleans()) else data.draw(NAMES)
    free = NameFree(one.parent, SHELF_OF[one.kind], name_key(name))
    return make.draft(make.undrop(one.id, name), expects=[revision_is(one), Live(one.parent), free])


def purge(data: DataObject, model: Model) -> Draft | None:
    one = pick(data, [one for one in model.objects.values() if not one.is_live and not one.purged])
    return None if one is None else make.draft(make.purge(one.id), expects=[revision_is(one)])


def erase(data: DataObject, model: Model) -> Draft | None:
    """Erase a part of a purged tree, leaves first."""

    def is_purged(id: SecurableId) -> bool:
        return any(one.purged for one in model.path(id))

    leaves = [one for one in model.objects.values() if is_purged(one.id) and not list(model.children(one.id))]
    if not leaves:
        return None
    chosen = data.draw(st.lists(st.sampled_from(leaves), min_size=1, max_size=3, unique_by=lambda one: one.id))
    return make.draft(make.erase(*[one.id for one in chosen]), expects=list(map(revision_is, chosen)))


def refuse(data: DataObject, model: Model) -> Draft | None:
    """A use case refused the request: only the receipt of its key is stored."""
    return make.draft(outcome=Refused(error="NameTaken", message="no"))


MOVES: list[Move] = [
    create, create, settle_staging_table, commit, commit, commit, raise_floor, drop_versions, update, rename, swap,
    swap, drop, replace_table, undrop, undrop, purge, erase, erase, refuse,
]  # fmt: skip


def draw_draft(data: DataObject, model: Model) -> Draft:
    """A random move that is possible now, sometimes with an idempotency key."""
    first = data.draw(st.integers(0, len(MOVES) - 1))
    for move in MOVES[first:] + MOVES[:first]:
        if (draft := move(data, model)) is not None:
            return replace(draft, keys=draw_keys(data))
    raise AssertionError("a refusal is always possible")


def draw_keys(data: DataObject) -> tuple[IdempotencyKey, ...]:
    keys: tuple[str, ...] = data.draw(st.sampled_from([()] * 11 + [("k1",), ("k2",), ("k3",), ("k2", "k3")]))
    return tuple(
        make.idempotency_key(key, data.draw(st.sampled_from(["one", "one", "other"])), lifetime_ms=200) for key in keys
    )


def initial_drafts(root: SecurableId) -> list[Draft]:
    """Drafts that create a lake, so that a short walk has objects to change."""
    catalogs = [make.catalog(root, name) for name in ("a", "b")]
    spaces = [make.namespace(parent.id, name) for parent in catalogs for name in ("a", "b")]
    tables = [make.table(parent.id, name) for parent in spaces[:3] for name in ("a", "b")]
    heads = [make.commit(table.id, version) for table in tables for version in range(3)]
    return [make.draft(*catalogs, *spaces), make.draft(*tables, *heads)]
