"""The effect of each change, alone and together with others in one draft."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from moorage.core.entries import HeadIs, RevisionIs
from moorage.core.ids import SecurableId
from moorage.core.securables import MAIN, Column, Doc, Head, Kind, Securable, Shelf, TableDoc
from moorage.ledger.port import Ledger, Stale
from moorage.testing import builders as make
from moorage.testing.builders import Clock


async def id_at(ledger: Ledger, *names: str) -> SecurableId | None:
    """Return the id of the object at a path of names, or None if there is none."""
    found = await ledger.walk(make.path_to(*names))
    return found.chain[-1].id if len(found.chain) == len(names) else None


async def current(ledger: Ledger, id: SecurableId) -> Securable:
    return (await ledger.lineage(id)).chain[-1]


async def version_numbers(ledger: Ledger, table: SecurableId, ref: str = MAIN) -> list[int]:
    """Return the numbers of the stored versions, after checking that they are the same in both orders."""
    found = [each.version for each in await ledger.versions(table, ref)]
    assert [each.version for each in await ledger.versions(table, ref, descending=True)] == found[::-1]
    assert [each.version for each in await ledger.versions(table, ref, descending=True, limit=1)] == found[-1:]
    assert await ledger.count_versions(table, ref, 0, 2**62) == len(found)
    assert await ledger.count_versions(table, ref, 2, 3) == len([number for number in found if number in (2, 3)])
    return found


class Changes:
    async def test_a_created_object_has_all_fields_of_its_change(self, ledger: Ledger, clock: Clock) -> None:
        lake = await make.lake(ledger)
        doc = Doc(
            comment="what was ordered",
            properties={"team": "süd", "empty": ""},
            location="s3://bucket/orders",
            table=TableDoc(
                format="iceberg", managed=False, columns=(Column(name="id", type_text="long", nullable=False),)
            ),
            details={"nested": {"list": [1, None, 2.5, "x"]}},
        )
        clock.advance(5)
        change = make.table(lake.namespace, "Orders", doc=doc, owner=make.BOB)
        await make.add(ledger, change)
        assert await current(ledger, change.id) == Securable(
            id=change.id,
            kind=Kind.TABLE,
            parent=lake.namespace,
            name="Orders",
            owner=make.BOB,
            revision=1,
            created_at_ms=clock.now_ms,
            created_by=make.ANN,
            updated_at_ms=clock.now_ms,
            updated_by=make.ANN,
            doc=doc,
        )

    async def test_an_update_replaces_the_whole_description(self, ledger: Ledger, clock: Clock) -> None:
        lake = await make.lake(ledger)
        before = await current(ledger, lake.table)
        clock.advance(10)
        await ledger.append(make.draft(make.update(lake.table, comment="new"), caller=make.BOB))
        assert await current(ledger, lake.table) == replace(
            before, doc=Doc(comment="new"), revision=2, updated_at_ms=clock.now_ms, updated_by=make.BOB
        )

    async def test_an_owner_changes_only_when_given(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        await make.add(ledger, make.update(lake.table, owner=make.BOB))
        await make.add(ledger, make.update(lake.table, comment="later"))
        assert (await current(ledger, lake.table)).owner == make.BOB

    async def test_grants_are_replaced_as_a_whole_and_change_nothing_else(self, ledger: Ledger, clock: Clock) -> None:
        lake = await make.lake(ledger)
        before = await current(ledger, lake.table)
        clock.advance(10)
        await make.add(ledger, make.set_grants(lake.table, ann=["SELECT", "MODIFY"], readers=["SELECT"]))
        given = {"ann": ("SELECT", "MODIFY"), "readers": ("SELECT",)}
        assert await current(ledger, lake.table) == replace(
            before, grants=given, revision=2, updated_at_ms=clock.now_ms
        )
        await make.add(ledger, make.set_grants(lake.table, bob=["MODIFY"]), make.update(lake.table, comment="new"))
        after = await current(ledger, lake.table)
        assert (after.grants, after.doc, after.revision) == ({"bob": ("MODIFY",)}, Doc(comment="new"), 4)
        assert [one.grants for one in (await ledger.children(lake.namespace, Shelf.RELATION)).items] == [after.grants]
        assert (await ledger.walk(make.path_to("lake", "sea", "t"))).chain[-1].grants == after.grants
        await make.add(ledger, make.set_grants(lake.table))
        assert (await current(ledger, lake.table)).grants == {}

    async def test_an_object_may_be_created_with_grants_in_one_draft(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        new = make.table(lake.namespace, "new")
        await make.add(
            ledger, new, make.set_grants(new.id, ann=["SELECT"]), make.rename(new.id, lake.namespace, "newer")
        )
        found = await current(ledger, new.id)
        assert (found.name, found.grants, found.revision) == ("newer", {"ann": ("SELECT",)}, 3)

    async def test_a_refused_draft_changes_no_grants(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        with pytest.raises(Stale):
            await make.add(ledger, make.set_grants(lake.table, ann=["SELECT"]), expects=[RevisionIs(lake.table, 9)])
        assert (await current(ledger, lake.table)).grants == {}

    async def test_a_rename_moves_the_name_and_nothing_else(self, ledger: Ledger, clock: Clock) -> None:
        lake = await make.lake(ledger, "Old")
        before = await current(ledger, lake.table)
        clock.advance(10)
        await ledger.append(make.draft(make.rename(lake.table, lake.namespace, "New"), caller=make.BOB))
        assert await id_at(ledger, "lake", "sea", "old") is None
        assert await id_at(ledger, "lake", "sea", "new") == lake.table
        assert await current(ledger, lake.table) == replace(
            before, name="New", revision=2, updated_at_ms=clock.now_ms, updated_by=make.BOB
        )

    async def test_a_rename_may_change_only_the_case(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, "orders")
        free = make.relation_free(lake.namespace, "ORDERS")
        await make.add(ledger, make.rename(lake.table, lake.namespace, "ORDERS"), expects=[free])
        assert (await current(ledger, lake.table)).name == "ORDERS"

    async def test_a_table_may_move_to_another_namespace(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, "t")
        other = make.namespace(lake.catalog, "other")
        await make.add(ledger, other, make.rename(lake.table, other.id, "moved"))
        assert await id_at(ledger, "lake", "sea", "t") is None
        assert await id_at(ledger, "lake", "other", "moved") == lake.table

    async def test_two_tables_may_swap_names(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, "a", "b")
        a, b = lake.tables
        await make.add(
            ledger,
            make.rename(a, lake.namespace, "b"),
            make.rename(b, lake.namespace, "a"),
            expects=[make.relation_free(lake.namespace, "a"), make.relation_free(lake.namespace, "b")],
        )
        assert (await id_at(ledger, "lake", "sea", "a"), await id_at(ledger, "lake", "sea", "b")) == (b, a)

    async def test_names_may_be_rotated_in_one_draft(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, "a", "b", "c")
        a, b, c = lake.tables
        renames = [(a, "b"), (b, "c"), (c, "a")]
        await make.add(ledger, *[make.rename(id, lake.namespace, name) for id, name in renames])
        assert [await id_at(ledger, "lake", "sea", name) for name in "abc"] == [c, a, b]

    async def test_a_table_may_be_replaced_by_one_of_the_same_name(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, "t")
        successor = make.table(lake.namespace, "T")
        free = make.relation_free(lake.namespace, "t")
        await make.add(ledger, make.drop(lake.table), successor, expects=[free])
        assert await id_at(ledger, "lake", "sea", "t") == successor.id
        assert not (await current(ledger, lake.table)).is_live

    async def test_names_are_released_before_they_are_taken(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, "t")
        successor = make.table(lake.namespace, "t")
        await make.add(ledger, successor, make.drop(lake.table))
        assert await id_at(ledger, "lake", "sea", "t") == successor.id

    async def test_an_undrop_may_take_a_name_that_the_same_draft_frees(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, "t", "other")
        t, other = lake.tables
        await make.add(ledger, make.drop(t))
        await make.add(ledger, make.rename(other, lake.namespace, "t"))
        await make.add(ledger, make.undrop(t, "t"), make.drop(other))
        assert await id_at(ledger, "lake", "sea", "t") == t

    async def test_a_table_can_be_created_with_its_first_version(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        new = make.table(lake.namespace, "born")
        await make.add(ledger, new, make.commit(new.id, 0, timestamp_ms=17, row_id_mark=4))
        assert (await current(ledger, new.id)).head == Head(
            ref=MAIN, version=0, timestamp_ms=17, row_id_mark=4, floor=0, published=None
        )

    async def test_a_tree_can_be_created_in_one_draft(self, ledger: Ledger) -> None:
        await make.lake(ledger, "t")
        chain = (await ledger.walk(make.path_to("lake", "sea", "t"))).chain
        assert [found.kind for found in chain] == [Kind.CATALOG, Kind.NAMESPACE, Kind.TABLE]

    async def test_one_draft_may_commit_two_versions(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        receipt = await make.add(
            ledger,
            make.commit(lake.table, 1, row_id_mark=10),
            make.commit(lake.table, 2, timestamp_ms=99),
            expects=[HeadIs(lake.table, MAIN, 0)],
        )
        head = await ledger.head(lake.table, MAIN)
        assert head == Head(ref=MAIN, version=2, timestamp_ms=99, row_id_mark=10, floor=0, published=None)
        versions = await ledger.versions(lake.table, MAIN, first=1)
        assert [(found.version, found.seq) for found in versions] == [(1, receipt.seq), (2, receipt.seq)]

    async def test_a_commit_without_a_row_id_high_water_mark_keeps_the_old_one(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        await make.add(ledger, make.commit(lake.table, 1, row_id_mark=10))
        await make.add(ledger, make.commit(lake.table, 2))
        head = await ledger.head(lake.table, MAIN)
        assert head is not None
        assert head.row_id_mark == 10

    async def test_the_floor_never_decreases(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        await make.add(ledger, *[make.commit(lake.table, version) for version in range(1, 6)])
        await make.add(ledger, make.raise_floor(lake.table, 4))
        await make.add(ledger, make.raise_floor(lake.table, 2))
        head = await ledger.head(lake.table, MAIN)
        assert head is not None
        assert (head.version, head.floor) == (5, 4)

    async def test_the_numbers_of_dropped_versions_are_not_reused(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        await make.add(ledger, *[make.published_commit(lake.table, version) for version in range(1, 6)])
        await make.add(ledger, make.drop_versions(lake.table, 0, 1), make.drop_versions(lake.table, 3, 5))
        assert await version_numbers(ledger, lake.table) == [2]
        assert [found.version for found in await ledger.staged()] == [2]
        head = await ledger.head(lake.table, MAIN)
        assert head is not None
        assert head.version == 5

    async def test_commits_and_dropped_versions_apply_in_their_order(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        await make.add(
            ledger,
            make.drop_versions(lake.table, 0, 0),
            make.commit(lake.table, 1),
            make.commit(lake.table, 2),
            make.drop_versions(lake.table, 1, 1),
            make.commit(lake.table, 3),
        )
        assert await version_numbers(ledger, lake.table) == [2, 3]

    async def test_a_dropped_line_has_no_versions_and_may_be_created_anew(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        await make.add(ledger, *[make.published_commit(lake.table, version, ref="dev") for version in (4, 5)])
        await ledger.record_published(lake.table, "dev", 4)
        await make.add(ledger, make.drop_line(lake.table, "dev"))
        assert await ledger.head(lake.table, "dev") is None
        assert await version_numbers(ledger, lake.table, "dev") == []
        assert await ledger.staged() == ()
        await make.add(ledger, make.commit(lake.table, 2, ref="dev"), expects=[HeadIs(lake.table, "dev", None)])
        await make.add(ledger, make.drop_line(lake.table, "dev"), make.commit(lake.table, 7, ref="dev"))
        head = await ledger.head(lake.table, "dev")
        assert head is not None
        assert (head.version, head.published) == (7, None)
        assert await version_numbers(ledger, lake.table) == [0]

    async def test_changes_of_one_object_apply_in_their_order(self, ledger: Ledger, clock: Clock) -> None:
        lake = await make.lake(ledger)
        before = await current(ledger, lake.table)
        clock.advance(1)
        await make.add(
            ledger,
            make.update(lake.table, comment="first", owner=make.BOB),
            make.rename(lake.table, lake.catalog, "between"),
            make.update(lake.table, comment="last"),
            make.rename(lake.table, lake.namespace, "end"),
        )
        assert await current(ledger, lake.table) == replace(
            before, name="end", owner=make.BOB, doc=Doc(comment="last"), revision=5, updated_at_ms=clock.now_ms
        )

    async def test_one_draft_may_create_and_change_an_object(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        new = make.table(lake.namespace, "first name")
        await make.add(ledger, new, make.update(new.id, comment="c"), make.rename(new.id, lake.catalog, "second"))
        found = await current(ledger, new.id)
        assert (found.revision, found.name, found.parent) == (3, "second", lake.catalog)
        assert found.doc == Doc(comment="c")

    async def test_one_draft_may_change_tables_of_several_catalogs(self, ledger: Ledger) -> None:
        one, two = await make.lake(ledger), await make.lake(ledger, catalog_name="two")
        await make.add(
            ledger,
            make.commit(one.table, 1),
            make.commit(two.table, 1),
            expects=[HeadIs(one.table, MAIN, 0), HeadIs(two.table, MAIN, 0)],
        )
        heads = [await ledger.head(table, MAIN) for table in (one.table, two.table)]
        assert [head and head.version for head in heads] == [1, 1]
