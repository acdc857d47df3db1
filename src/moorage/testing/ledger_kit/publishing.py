"""Publishing: staged commits, and the published version of a line, which only increases."""

from __future__ import annotations

from moorage.core.ids import SecurableId
from moorage.core.securables import MAIN
from moorage.ledger.port import Ledger, Staged
from moorage.testing import builders as make
from moorage.testing.builders import Clock


async def stage_versions(ledger: Ledger, table: SecurableId, *versions: int) -> None:
    for version in versions:
        attachment = make.attached(table, version, staged=b"v%d" % version)
        await ledger.append(make.draft(make.published_commit(table, version), attachments=[attachment]))


async def staged(ledger: Ledger) -> list[tuple[int, bytes | None]]:
    return [(found.version, found.bytes) for found in await ledger.staged()]


async def published(ledger: Ledger, table: SecurableId) -> int | None:
    head = await ledger.head(table, MAIN)
    assert head is not None
    assert (await ledger.lineage(table)).chain[-1].head == head
    return head.published


class Publishing:
    async def test_a_commit_to_be_published_is_staged_with_its_bytes(self, ledger: Ledger, clock: Clock) -> None:
        lake = await make.lake(ledger)
        clock.advance(3)
        change = make.published_commit(lake.table, 1, digest="sha")
        attachment = make.attached(lake.table, 1, staged=b"\x00bytes")
        await ledger.append(make.draft(change, attachments=[attachment]))
        assert change.publish is not None
        assert await ledger.staged() == (
            Staged(
                table=lake.table,
                ref=MAIN,
                version=1,
                at_ms=clock.now_ms,
                file=change.file,
                publish=change.publish,
                size=change.size,
                digest="sha",
                bytes=b"\x00bytes",
            ),
        )

    async def test_a_large_commit_is_staged_without_its_bytes(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        await make.add(ledger, make.published_commit(lake.table, 1))
        assert await staged(ledger) == [(1, None)]

    async def test_a_commit_without_a_target_is_not_published(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        await make.add(ledger, make.commit(lake.table, 1))
        assert await ledger.staged() == ()
        assert await published(ledger, lake.table) is None

    async def test_staged_commits_are_sorted_within_each_line(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, "a", "b")
        for version in range(1, 12):
            for table in lake.tables:
                await stage_versions(ledger, table, version)
        found = await ledger.staged()
        for table in lake.tables:
            assert [one.version for one in found if one.table == table] == list(range(1, 12))
        assert len(await ledger.staged(limit=5)) == 5

    async def test_young_commits_are_left_to_their_writers(self, ledger: Ledger, clock: Clock) -> None:
        lake = await make.lake(ledger)
        await stage_versions(ledger, lake.table, 1)
        assert await ledger.staged(older_than_ms=100) == ()
        clock.advance(100)
        await stage_versions(ledger, lake.table, 2)
        assert [one.version for one in await ledger.staged(older_than_ms=100)] == [1]

    async def test_the_bytes_of_published_versions_are_deleted(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        await stage_versions(ledger, lake.table, 1, 2, 3)
        await ledger.record_published(lake.table, MAIN, 2)
        assert await staged(ledger) == [(3, b"v3")]
        assert await published(ledger, lake.table) == 2
        assert (await ledger.walk(make.path_to("lake", "sea", "t"))).chain[-1].head == await ledger.head(
            lake.table, MAIN
        )

    async def test_the_published_version_never_decreases(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        await stage_versions(ledger, lake.table, 1, 2, 3)
        await ledger.record_published(lake.table, MAIN, 3)
        await ledger.record_published(lake.table, MAIN, 1)
        assert await published(ledger, lake.table) == 3
        assert await staged(ledger) == []

    async def test_the_client_published_version_never_decreases(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        await stage_versions(ledger, lake.table, 1, 2, 3)
        reported = []
        for version, claimed in ((1, False), (2, True), (3, False), (1, True)):
            await ledger.record_published(lake.table, MAIN, version, by_client=claimed)
            head = await ledger.head(lake.table, MAIN)
            assert head is not None
            reported.append((head.published, head.client_published))
        assert reported == [(1, -1), (2, 2), (3, 2), (3, 2)]

    async def test_staged_commits_are_read_in_pages(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, "a", "b")
        for table in lake.tables:
            await stage_versions(ledger, table, 1, 2, 3)
        pages: list[tuple[str, str, int]] = []
        while page := await ledger.staged(limit=2, after=pages[-1] if pages else ("", "", -1)):
            pages += [(one.table, one.ref, one.version) for one in page]
        assert pages == [(table, MAIN, version) for table in sorted(lake.tables) for version in (1, 2, 3)]

    async def test_each_line_is_published_on_its_own(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        await make.add(ledger, make.published_commit(lake.table, 1, ref="branch"))
        await stage_versions(ledger, lake.table, 1)
        await ledger.record_published(lake.table, "branch", 1)
        assert await published(ledger, lake.table) is None
        assert await staged(ledger) == [(1, b"v1")]

    async def test_a_commit_stays_staged_until_its_file_is_durable(self, ledger: Ledger, clock: Clock) -> None:
        lake = await make.lake(ledger, "a", "b", "c")
        a, b, c = lake.tables
        for table, versions in ((a, (1, 2)), (b, (1, 2, 3)), (c, (1,))):
            for version in versions:
                attachment = make.attached(table, version, document=b"{}", unsynced=True)
                await ledger.append(make.draft(make.commit(table, version), attachments=[attachment]))
        [first, *_] = await ledger.staged(limit=1)
        assert (first.publish, first.bytes, first.file) == (None, None, make.commit(first.table, 1).file)
        await ledger.record_durable({(a, MAIN): 2, (b, MAIN): 2, (b, "branch"): 9})
        assert {(each.table, each.version) for each in await ledger.staged()} == {(b, 3), (c, 1)}
        await ledger.record_durable({(a, MAIN): 1, (b, MAIN): 3, (c, MAIN): 1})
        assert await ledger.staged() == ()
        assert await published(ledger, a) is None
        await ledger.record_durable({})

    async def test_a_note_makes_no_history(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        await stage_versions(ledger, lake.table, 1)
        before = await ledger.position()
        await ledger.record_published(lake.table, MAIN, 1)
        assert await ledger.position() == before

    async def test_a_note_on_an_erased_table_leaves_nothing(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        await stage_versions(ledger, lake.table, 1)
        await make.add(ledger, make.drop(lake.table), make.purge(lake.table), make.erase(lake.table))
        await ledger.record_published(lake.table, MAIN, 1)
        await ledger.store_report(lake.table, 1, b"{}")
        again = make.table(lake.namespace, "t", id=lake.table)
        await make.add(ledger, again, make.commit(lake.table, 0))
        assert await published(ledger, lake.table) is None
        assert await ledger.reports(lake.table) == ()
