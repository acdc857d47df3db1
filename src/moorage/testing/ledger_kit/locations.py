"""Locations never overlap. An object holds its location until it is erased."""

from __future__ import annotations

import pytest

from moorage.core.entries import LocationFree
from moorage.core.locations import normalize_location
from moorage.core.securables import Doc
from moorage.ledger.port import Ledger
from moorage.testing import builders as make
from moorage.testing.ledger_kit.expectations import accepts, to_moorage_error

HELD = "s3://bucket/lake/t1"


class Locations:
    @pytest.mark.parametrize(
        "path",
        [
            HELD,
            HELD + "/",
            HELD + "/data",
            HELD + "/data/deep/er",
            "s3://bucket/lake",
            "s3://bucket",
            HELD + "/\U0010ffff",
        ],
        ids=["equal", "equal with slash", "below", "far below", "above", "far above", "below, sorting last"],
    )
    async def test_an_overlapping_location_is_refused_with_its_holder(self, ledger: Ledger, path: str) -> None:
        lake = await make.lake(ledger)
        holder = make.table(lake.namespace, "holder", path=HELD)
        await make.add(ledger, holder, expects=[LocationFree(normalize_location(HELD))])
        assert (await to_moorage_error(ledger, LocationFree(normalize_location(path)))).actual == holder.id
        assert await ledger.location_holder(normalize_location(path)) == holder.id

    @pytest.mark.parametrize("child", ["a", "é", "\U0010ffff", "\U0010ffff\U0010ffff"])
    async def test_a_location_with_another_below_it_is_taken(self, ledger: Ledger, child: str) -> None:
        lake = await make.lake(ledger)
        holder = make.table(lake.namespace, "holder", path=f"{HELD}/{child}")
        await make.add(ledger, holder)
        assert (await to_moorage_error(ledger, LocationFree(normalize_location(HELD)))).actual == holder.id

    @pytest.mark.parametrize(
        "path",
        [
            "s3://bucket/lake/t10",
            "s3://bucket/lake/t",
            "s3://bucket/lake/t1.",
            "s3://bucket/lake/t0",
            "s3://bucket2",
            "s3://bucket/lake/T1",
            "gs://bucket/lake/t1",
            "s3://bucket/lake/t2/t1",
        ],
    )
    async def test_a_sibling_location_is_free(self, ledger: Ledger, path: str) -> None:
        lake = await make.lake(ledger)
        await make.add(ledger, make.table(lake.namespace, "holder", path=HELD))
        assert await ledger.location_holder(normalize_location(path)) is None
        sibling = make.table(lake.namespace, "sibling", path=path)
        await make.add(ledger, sibling, expects=[LocationFree(normalize_location(path))])
        assert (await to_moorage_error(ledger, LocationFree(normalize_location(path)))).actual == sibling.id

    async def test_a_dropped_object_keeps_its_location_until_it_is_erased(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        holder = make.table(lake.namespace, "holder", path=HELD)
        await make.add(ledger, holder)
        await make.add(ledger, make.drop(holder.id))
        assert (await to_moorage_error(ledger, LocationFree(normalize_location(HELD)))).actual == holder.id
        await make.add(ledger, make.purge(holder.id))
        assert (await to_moorage_error(ledger, LocationFree(normalize_location(HELD)))).actual == holder.id
        await make.add(ledger, make.erase(holder.id))
        assert await accepts(ledger, LocationFree(normalize_location(HELD)))

    async def test_a_rename_does_not_change_the_location(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        holder = make.table(lake.namespace, "holder", path=HELD)
        await make.add(ledger, holder)
        await make.add(ledger, make.rename(holder.id, lake.namespace, "renamed"))
        assert (await to_moorage_error(ledger, LocationFree(normalize_location(HELD)))).actual == holder.id

    async def test_an_object_without_a_location_holds_none(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        await make.add(ledger, make.table(lake.namespace, "nowhere", doc=Doc(location=HELD)))
        assert await accepts(ledger, LocationFree(normalize_location(HELD)))

    async def test_a_moved_object_holds_its_new_and_its_old_location(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        holder = make.table(lake.namespace, "holder", path=HELD)
        await make.add(ledger, holder)
        new_location = normalize_location("s3://bucket/elsewhere")
        for path in (
            new_location,
            new_location,
            normalize_location(HELD),
            normalize_location(HELD + "/deeper"),
        ):  # again, back, and below
            await make.add(ledger, make.update(holder.id, holds=path), expects=[LocationFree(path, holder.id)])
        for path in (
            new_location,
            normalize_location(HELD),
            normalize_location(HELD + "/deeper"),
            normalize_location("s3://bucket/elsewhere/deep"),
        ):
            assert (await to_moorage_error(ledger, LocationFree(path))).actual == holder.id
        await make.add(ledger, make.drop(holder.id))
        await make.add(ledger, make.erase(holder.id))
        assert await accepts(ledger, LocationFree(normalize_location("s3://bucket")))

    @pytest.mark.parametrize("path", [HELD, HELD + "/deep", "s3://bucket/lake"])
    async def test_an_object_cannot_move_to_the_location_of_another(self, ledger: Ledger, path: str) -> None:
        lake = await make.lake(ledger)
        holder = make.table(lake.namespace, "holder", path=HELD)
        mover = make.table(lake.namespace, "mover", path="s3://bucket/lake/t2")
        await make.add(ledger, holder)
        await make.add(ledger, mover)
        assert (await to_moorage_error(ledger, LocationFree(normalize_location(path), mover.id))).actual == holder.id
