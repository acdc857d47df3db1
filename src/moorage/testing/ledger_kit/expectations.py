"""Each expectation: when it holds, when it fails, and which actual value the refusal reports."""

from __future__ import annotations

import pytest

from moorage import fresh
from moorage.core.entries import AccessIs, Drop, Empty, Expect, FloorAtMost, HeadIs, Live, NameFree, RevisionIs, Update
from moorage.core.securables import MAIN, NO_PARENT, Doc, Kind, Shelf
from moorage.ledger.port import Ledger, Stale
from moorage.testing import builders as make


async def to_moorage_error(ledger: Ledger, *expects: Expect) -> Stale:
    """Return the refusal of a draft with these expectations, after checking that it left nothing behind."""
    before = await ledger.position()
    probe = make.catalog(ledger.root, f"probe {fresh.draft_id()}")
    with pytest.raises(Stale) as refusal:
        await ledger.append(make.draft(probe, expects=expects))
    assert await ledger.position() == before
    assert (await ledger.lineage(probe.id)).chain == ()
    return refusal.value


async def accepts(ledger: Ledger, *expects: Expect) -> bool:
    """Whether a draft with these expectations becomes history."""
    probe = make.catalog(ledger.root, f"probe {fresh.draft_id()}")
    receipt = await ledger.append(make.draft(probe, expects=expects))
    return receipt.seq == (await ledger.position()).seq


class Expectations:
    async def test_the_head_is_the_version_of_the_last_commit(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        await make.add(ledger, make.commit(lake.table, 1), expects=[HeadIs(lake.table, MAIN, 0)])
        assert await accepts(ledger, HeadIs(lake.table, MAIN, 1))

    async def test_a_stale_head_is_refused_with_the_newest_version(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        await make.add(ledger, make.commit(lake.table, 1))
        stale = HeadIs(lake.table, MAIN, 0)
        refusal = await to_moorage_error(ledger, stale)
        assert (refusal.expect, refusal.actual) == (stale, 1)

    async def test_a_line_without_a_version_has_no_head(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        assert await accepts(ledger, HeadIs(lake.table, "branch", None))
        assert (await to_moorage_error(ledger, HeadIs(lake.table, "branch", 0))).actual is None
        assert (await to_moorage_error(ledger, HeadIs(lake.table, MAIN, None))).actual == 0

    async def test_a_dropped_line_has_no_head(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        await make.add(ledger, make.commit(lake.table, 7, ref="branch"))
        assert await accepts(ledger, HeadIs(lake.table, "branch", 7))
        await make.add(ledger, make.drop_line(lake.table, "branch"))
        assert (await to_moorage_error(ledger, HeadIs(lake.table, "branch", 7))).actual is None
        assert await accepts(ledger, HeadIs(lake.table, "branch", None))

    async def test_lines_of_one_table_have_separate_heads(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        await make.add(ledger, make.commit(lake.table, 7, ref="branch"))
        assert await accepts(ledger, HeadIs(lake.table, MAIN, 0), HeadIs(lake.table, "branch", 7))

    async def test_an_unknown_table_has_no_head_to_expect(self, ledger: Ledger) -> None:
        assert (await to_moorage_error(ledger, HeadIs(fresh.securable_id(), MAIN, None))).actual is None

    async def test_a_revision_is_current_until_the_object_changes(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        assert await accepts(ledger, RevisionIs(lake.table, 1))
        await make.add(ledger, make.update(lake.table, comment="new"))
        assert await accepts(ledger, RevisionIs(lake.table, 2))
        stale = RevisionIs(lake.table, 1)
        refusal = await to_moorage_error(ledger, stale)
        assert (refusal.expect, refusal.actual) == (stale, 2)

    async def test_an_unknown_object_has_no_revision(self, ledger: Ledger) -> None:
        assert (await to_moorage_error(ledger, RevisionIs(fresh.securable_id(), 1))).actual is None

    async def test_a_commit_does_not_change_the_revision(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        await make.add(ledger, make.commit(lake.table, 1))
        assert await accepts(ledger, RevisionIs(lake.table, 1))

    async def test_an_object_and_its_ancestors_are_live(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        assert await accepts(ledger, *map(Live, (lake.table, lake.namespace, lake.catalog, ledger.root)))

    async def test_an_unknown_object_is_not_live(self, ledger: Ledger) -> None:
        expect = Live(fresh.securable_id())
        assert (await to_moorage_error(ledger, expect)).expect == expect
        assert (await to_moorage_error(ledger, Live(NO_PARENT))).expect == Live(NO_PARENT)

    @pytest.mark.parametrize("level", ["catalog", "namespace", "table"])
    async def test_nothing_below_a_dropped_object_is_live(self, ledger: Ledger, level: str) -> None:
        lake = await make.lake(ledger)
        assert await accepts(ledger, Live(lake.table), HeadIs(lake.table, MAIN, 0))
        dropped = getattr(lake, level)
        await make.add(ledger, make.drop(dropped))
        assert (await to_moorage_error(ledger, Live(lake.table))).expect == Live(lake.table)
        assert (await to_moorage_error(ledger, HeadIs(lake.table, MAIN, 0))).expect == HeadIs(lake.table, MAIN, 0)
        await make.add(ledger, make.undrop(dropped, "back"))
        assert await accepts(ledger, Live(lake.table), HeadIs(lake.table, MAIN, 0))

    async def test_a_namespace_is_empty_without_live_children(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        inner = make.namespace(lake.namespace, "inner")
        await make.add(ledger, inner)
        assert await accepts(ledger, Empty(inner.id))
        child = make.table(inner.id, "child")
        await make.add(ledger, child)
        assert (await to_moorage_error(ledger, Empty(inner.id))).actual == child.id
        await make.add(ledger, make.drop(child.id))
        assert await accepts(ledger, Empty(inner.id))

    @pytest.mark.parametrize("kind", [Kind.NAMESPACE, Kind.VIEW, Kind.VOLUME, Kind.FUNCTION, Kind.MODEL])
    async def test_a_parent_with_a_child_on_any_shelf_is_not_empty(self, ledger: Ledger, kind: Kind) -> None:
        top = make.catalog(ledger.root, "top")
        child = make.create(kind, top.id, "child")
        await make.add(ledger, top, child)
        assert (await to_moorage_error(ledger, Empty(top.id))).actual == child.id

    async def test_a_namespace_with_only_a_staging_table_is_empty(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        inner = make.namespace(lake.namespace, "inner")
        await make.add(ledger, inner, make.stage(inner.id, "/lake/staged", lifetime_ms=1000))
        assert await accepts(ledger, Empty(inner.id))

    async def test_a_taken_name_is_refused_with_its_holder(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, "Orders")
        refusal = await to_moorage_error(ledger, make.relation_free(lake.namespace, "ORDERS"))
        assert refusal.actual == lake.table
        assert await accepts(ledger, make.relation_free(lake.namespace, "orders2"))

    async def test_a_name_is_free_on_other_shelves_and_below_other_parents(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, "t")
        assert await accepts(ledger, NameFree(lake.namespace, Shelf.VOLUME, "t"), make.relation_free(lake.catalog, "t"))

    async def test_tables_and_views_share_a_shelf(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        view = make.create(Kind.VIEW, lake.namespace, "seen")
        await make.add(ledger, view)
        assert (await to_moorage_error(ledger, make.relation_free(lake.namespace, "Seen"))).actual == view.id

    async def test_a_drop_frees_the_name(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, "t")
        await make.add(ledger, make.drop(lake.table))
        assert await accepts(ledger, make.relation_free(lake.namespace, "t"))

    async def test_a_name_that_another_draft_would_release_is_taken(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, "a", "b")
        taken = make.relation_free(lake.namespace, "b")
        with pytest.raises(Stale) as refusal:
            await make.add(ledger, make.rename(lake.table, lake.namespace, "b"), expects=[taken])
        assert refusal.value.actual == lake.tables[1]

    async def test_access_is_unchanged_until_an_owner_changes(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        before = (await ledger.position()).access_seq
        await make.add(ledger, make.update(lake.table, comment="unrelated to access"))
        assert await accepts(ledger, AccessIs(before))
        moved = await make.add(ledger, make.update(lake.table, owner=make.BOB))
        assert (await ledger.position()).access_seq == moved.seq
        assert (await to_moorage_error(ledger, AccessIs(before))).actual == moved.seq
        assert moved.seq is not None
        assert await accepts(ledger, AccessIs(moved.seq))

    async def test_access_changes_with_grants_principals_and_tokens(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        user = make.create(Kind.USER, ledger.root, "ann")
        token = make.create(Kind.TOKEN, user.id, "t")
        await make.add(ledger, user, token)
        for change in (
            make.set_grants(lake.table, ann=["SELECT"]),
            Update(id=user.id, doc=Doc(), changes_access=True),
            Drop(id=token.id, hold_ms=0, changes_access=True),
        ):
            before = (await ledger.position()).access_seq
            moved = await make.add(ledger, change)
            assert (await ledger.position()).access_seq == moved.seq
            assert ledger.known_access_seq in (moved.seq, None), "without a read, it is the newest one or not known"
            assert (await to_moorage_error(ledger, AccessIs(before))).actual == moved.seq
        before = (await ledger.position()).access_seq
        await make.add(ledger, make.drop(lake.table))
        assert (await ledger.position()).access_seq == before
        assert ledger.known_access_seq in (before, None)

    async def test_a_version_is_available_down_to_the_floor(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        await make.add(ledger, *[make.commit(lake.table, version) for version in range(1, 6)])
        assert await accepts(ledger, FloorAtMost(lake.table, MAIN, 0))
        await make.add(ledger, make.raise_floor(lake.table, 3))
        assert await accepts(ledger, FloorAtMost(lake.table, MAIN, 3))
        assert (await to_moorage_error(ledger, FloorAtMost(lake.table, MAIN, 2))).actual == 3

    async def test_an_unknown_line_has_no_floor(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        assert (await to_moorage_error(ledger, FloorAtMost(lake.table, "branch", 5))).actual is None

    async def test_the_first_failed_expectation_is_the_one_reported(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, "t")
        failing: list[Expect] = [
            HeadIs(lake.table, MAIN, 9),
            make.relation_free(lake.namespace, "t"),
            Live(fresh.securable_id()),
            RevisionIs(lake.table, 9),
            Empty(lake.namespace),
            FloorAtMost(lake.table, "branch", 0),
            AccessIs(10**9),
        ]
        for first in failing:
            rest = [expect for expect in failing if expect != first]
            assert (await to_moorage_error(ledger, Live(lake.table), first, *rest)).expect == first

    async def test_a_draft_without_expectations_is_accepted(self, ledger: Ledger) -> None:
        assert await accepts(ledger)
