"""Drop, undrop, purge and erase. Everything below an object is dropped and undropped with it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from moorage.core.entries import Live, RevisionIs
from moorage.core.errors import AlreadyPurged
from moorage.core.ids import SecurableId
from moorage.core.securables import MAIN, Kind, Securable, Shelf
from moorage.ledger.port import LATEST, Ledger, Stale
from moorage.testing import builders as make
from moorage.testing.builders import HOUR_MS, Clock


def names(found: Sequence[Securable]) -> list[str]:
    return [one.name for one in found]


def ids(found: Sequence[Securable]) -> set[SecurableId]:
    return {one.id for one in found}


class Trees:
    async def test_a_dropped_object_can_be_looked_up_by_its_id(self, ledger: Ledger, clock: Clock) -> None:
        lake = await make.lake(ledger)
        before = (await ledger.lineage(lake.table)).chain[-1]
        clock.advance(50)
        await ledger.append(make.draft(make.drop(lake.table, hold_ms=1000), caller=make.BOB))
        found = (await ledger.lineage(lake.table)).chain
        assert [one.id for one in found] == [lake.catalog, lake.namespace, lake.table]
        assert found[-1] == replace(
            before,
            revision=2,
            updated_at_ms=clock.now_ms,
            updated_by=make.BOB,
            dropped_at_ms=clock.now_ms,
            purge_at_ms=clock.now_ms + 1000,
        )

    async def test_a_dropped_catalog_hides_its_tree_until_it_is_undropped(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, "t")
        path = make.path_to("lake", "sea", "t")
        whole = (await ledger.walk(path)).chain
        await make.add(ledger, make.drop(lake.catalog))
        assert (await ledger.walk(path)).chain == ()
        await make.add(ledger, make.undrop(lake.catalog, "lake"))
        back = (await ledger.walk(path)).chain
        assert back[1:] == whole[1:]
        assert back[0].is_live
        assert back[0].purge_at_ms is None

    async def test_a_child_dropped_before_its_parent_stays_dropped(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, "a", "b")
        await make.add(ledger, make.drop(lake.table))
        await make.add(ledger, make.drop(lake.namespace))
        await make.add(ledger, make.undrop(lake.namespace, "sea"))
        assert names((await ledger.children(lake.namespace, Shelf.RELATION)).items) == ["b"]

    async def test_an_undropped_object_may_take_a_new_name(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, "t")
        await make.add(ledger, make.drop(lake.table))
        successor = make.table(lake.namespace, "t")
        await make.add(ledger, successor)
        taken = make.relation_free(lake.namespace, "t")
        with pytest.raises(Stale) as refusal:
            await make.add(ledger, make.undrop(lake.table, "t"), expects=[taken])
        assert refusal.value.actual == successor.id
        free = make.relation_free(lake.namespace, "T_old")
        await make.add(ledger, make.undrop(lake.table, "T_old"), expects=[free])
        assert (await ledger.walk(make.path_to("lake", "sea", "t_OLD"))).chain[-1].id == lake.table

    async def test_one_name_may_be_dropped_many_times(self, ledger: Ledger, clock: Clock) -> None:
        lake = await make.lake(ledger)
        dropped = []
        for _ in range(3):
            again = make.table(lake.namespace, "again")
            await make.add(ledger, again, expects=[make.name_free(again)])
            clock.advance(1)
            await make.add(ledger, make.drop(again.id))
            dropped.append(again.id)
        found = (await ledger.dropped(lake.namespace, Shelf.RELATION)).items
        assert [one.id for one in found] == dropped[::-1]

    async def test_dropped_children_are_listed_latest_first(self, ledger: Ledger, clock: Clock) -> None:
        lake = await make.lake(ledger, "a", "b", "c")
        for table in lake.tables:
            clock.advance(1)
            await make.add(ledger, make.drop(table))
        listing = await ledger.dropped(lake.namespace, Shelf.RELATION, limit=2)
        assert names(listing.items) == ["c", "b"]
        assert listing.position == await ledger.position()
        assert (await ledger.dropped(lake.namespace, Shelf.VOLUME)).items == ()

    async def test_an_undrop_that_expects_the_revision_before_a_purge_is_refused(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        await make.add(ledger, make.drop(lake.table))
        seen = RevisionIs(lake.table, 2)
        await make.add(ledger, make.purge(lake.table), expects=[seen])
        with pytest.raises(Stale) as refusal:
            await make.add(ledger, make.undrop(lake.table, "t"), expects=[seen])
        assert refusal.value.actual == 3
        assert (await ledger.lineage(lake.table)).chain[-1].purged
        assert (await ledger.dropped(lake.namespace, Shelf.RELATION)).items == ()

    async def test_a_purged_object_cannot_be_undropped(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        await make.add(ledger, make.drop(lake.table))
        await make.add(ledger, make.purge(lake.table))
        for expects in ([], [RevisionIs(lake.table, 3)]):
            with pytest.raises(AlreadyPurged):
                await make.add(ledger, make.update(lake.namespace), make.undrop(lake.table, "t"), expects=expects)
        assert (await ledger.lineage(lake.namespace)).chain[-1].revision == 1
        with pytest.raises(Stale):
            await make.add(ledger, make.undrop(lake.table, "t"), expects=[RevisionIs(lake.table, 2)])

    async def test_children_dropped_at_the_same_time_can_be_paged(self, ledger: Ledger, clock: Clock) -> None:
        lake = await make.lake(ledger, "a", "b", "c", "d", "e")
        await make.add(ledger, *map(make.drop, lake.tables[:3]))
        clock.advance(1)
        await make.add(ledger, *map(make.drop, lake.tables[3:]))
        found: list[Securable] = []
        while page := (
            await ledger.dropped(
                lake.namespace,
                Shelf.RELATION,
                after=(found[-1].dropped_at_ms or 0, found[-1].id) if found else LATEST,
                limit=2,
            )
        ).items:
            found += page
        assert [one.id for one in found] == [*sorted(lake.tables[3:]), *sorted(lake.tables[:3])]

    async def test_the_objects_of_a_shelf_are_paged_over_all_parents(self, ledger: Ledger) -> None:
        lake, other = await make.lake(ledger, "a", "b", "c"), make.catalog(ledger.root, "other")
        await make.add(ledger, other, make.drop(lake.tables[1]))
        found: list[SecurableId] = []
        while page := await ledger.ids_on(Shelf.RELATION, after=found[-1] if found else "", limit=1):
            found += page
        assert found == sorted((lake.tables[0], lake.tables[2]))
        assert await ledger.ids_on(Shelf.NAMESPACE) == (lake.namespace,)
        assert set(await ledger.ids_on(Shelf.CATALOG)) == {lake.catalog, other.id}

    async def test_the_objects_of_a_shelf_include_those_below_a_dropped_object(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        await make.add(ledger, make.drop(lake.catalog))
        assert await ledger.ids_on(Shelf.RELATION) == (lake.table,)
        assert await ledger.ids_on(Shelf.CATALOG) == ()

    async def test_objects_due_for_purge_are_paged_in_the_order_of_their_time(
        self, ledger: Ledger, clock: Clock
    ) -> None:
        lake = await make.lake(ledger, "a", "b", "c", "d")
        stage = make.stage(lake.namespace, "s3://bucket/stage", lifetime_ms=2)
        await make.add(ledger, stage, make.drop(lake.tables[0], hold_ms=3), make.drop(lake.tables[1], hold_ms=1))
        await make.add(ledger, *[make.drop(table, hold_ms=2) for table in lake.tables[2:]])
        clock.advance(3)
        found: list[Securable] = []
        after = (-1, "")
        while page := await ledger.due_for_purge(after=after, limit=2):
            found += page
            after = (page[-1].due_ms, page[-1].id)
        middle = sorted([stage.id, *lake.tables[2:]])
        assert [one.id for one in found] == [lake.tables[1], *middle, lake.tables[0]]

    async def test_no_object_is_due_for_purge_before_its_hold_ends(self, ledger: Ledger, clock: Clock) -> None:
        lake = await make.lake(ledger, "a", "b", "c")
        await make.add(ledger, make.drop(lake.tables[0], hold_ms=HOUR_MS))
        await make.add(ledger, make.drop(lake.tables[1], hold_ms=2 * HOUR_MS))
        assert await ledger.due_for_purge() == ()
        clock.advance(HOUR_MS)
        assert ids(await ledger.due_for_purge()) == {lake.tables[0]}
        clock.advance(HOUR_MS)
        assert ids(await ledger.due_for_purge()) == set(lake.tables[:2])
        assert len(await ledger.due_for_purge(limit=1)) == 1
        await make.add(ledger, make.undrop(lake.tables[0], "a"))
        assert ids(await ledger.due_for_purge()) == {lake.tables[1]}

    async def test_a_started_purge_stays_due_until_the_last_row_is_erased(self, ledger: Ledger, clock: Clock) -> None:
        lake = await make.lake(ledger)
        await make.add(ledger, make.drop(lake.catalog, hold_ms=0))
        await make.add(ledger, make.purge(lake.catalog))
        await make.add(ledger, make.erase(lake.table))
        assert ids(await ledger.due_for_purge()) == {lake.catalog}
        await make.add(ledger, make.erase(lake.namespace, lake.catalog))
        assert await ledger.due_for_purge() == ()

    async def test_a_staging_table_is_due_when_its_lifetime_ends(self, ledger: Ledger, clock: Clock) -> None:
        lake = await make.lake(ledger)
        stage = make.stage(lake.namespace, "s3://bucket/stage", lifetime_ms=500)
        await make.add(ledger, stage)
        assert (await ledger.lineage(stage.id)).chain[-1].expires_at_ms == clock.now_ms + 500
        assert await ledger.due_for_purge() == ()
        clock.advance(500)
        assert ids(await ledger.due_for_purge()) == {stage.id}

    async def test_a_staging_table_becomes_a_table_with_its_id_and_location(self, ledger: Ledger, clock: Clock) -> None:
        lake = await make.lake(ledger)
        stage = make.stage(lake.namespace, "s3://bucket/stage", lifetime_ms=500)
        await make.add(ledger, stage)
        table = make.table(lake.namespace, "staged", id=stage.id, path="s3://bucket/stage")
        await make.add(ledger, make.erase(stage.id), table, make.commit(table.id, 0), expects=[Live(stage.id)])
        found = (await ledger.walk(make.path_to("lake", "sea", "staged"))).chain[-1]
        assert (found.id, found.revision, found.expires_at_ms) == (stage.id, 1, None)
        assert found.head is not None
        clock.advance(1000)
        assert await ledger.due_for_purge() == ()

    async def test_an_erased_table_leaves_nothing_but_history(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, "t", "other")
        t, other = lake.tables
        document = make.attached(t, 1, document=b"{}", staged=b"bytes")
        await ledger.append(make.draft(make.published_commit(t, 1), attachments=[document]))
        await ledger.record_published(t, MAIN, 0)
        await make.add(ledger, make.drop(t))
        await make.add(ledger, make.purge(t))
        erased = await make.add(ledger, make.erase(t))
        assert (await ledger.lineage(t)).chain == ()
        assert await ledger.head(t, MAIN) is None
        assert await ledger.versions(t, MAIN) == ()
        assert await ledger.document(t, MAIN, 1) is None
        assert await ledger.staged() == ()
        assert [one.securable.id for one in await ledger.all_children(lake.namespace)] == [other]
        assert await ledger.head(other, MAIN) is not None
        assert len(await ledger.entries(0)) == erased.seq

    async def test_a_purge_finds_every_object_below(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, "a", "b")
        volume = make.create(Kind.VOLUME, lake.namespace, "v")
        await make.add(ledger, volume, make.drop(lake.table))
        found = await ledger.all_children(lake.catalog)
        assert [(one.securable.id, one.is_leaf) for one in found] == [(lake.namespace, False)]
        leaves = await ledger.all_children(lake.namespace)
        assert {(one.securable.id, one.is_leaf) for one in leaves} == {
            (lake.tables[0], True),
            (lake.tables[1], True),
            (volume.id, True),
        }
        assert len(await ledger.all_children(lake.namespace, limit=2)) == 2
