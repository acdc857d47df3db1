"""Reports: the first one on a commit and the latest one on a scan are kept. They are not part of history."""

from __future__ import annotations

from moorage.core.entries import LocationFree
from moorage.core.reports import ReportKind
from moorage.core.securables import Kind, Shelf
from moorage.ledger.port import Ledger, Report
from moorage.testing import builders as make
from moorage.testing.builders import Clock
from moorage.testing.ledger_kit.expectations import to_moorage_error


class Reports:
    async def test_a_report_is_stored_as_it_was_sent(self, ledger: Ledger, clock: Clock) -> None:
        lake = await make.lake(ledger)
        clock.advance(7)
        await ledger.store_report(lake.table, 3, b'{"\x00":1}')
        report = Report(table=lake.table, version=3, at_ms=clock.now_ms, body=b'{"\x00":1}')
        assert await ledger.reports(lake.table) == (report,)

    async def test_the_first_report_on_a_commit_is_kept(self, ledger: Ledger, clock: Clock) -> None:
        lake = await make.lake(ledger)
        await ledger.store_report(lake.table, 1, b"first")
        clock.advance(1)
        await ledger.store_report(lake.table, 1, b"second")
        assert [report.body for report in await ledger.reports(lake.table)] == [b"first"]

    async def test_the_latest_note_of_a_writer_or_a_lifetime_is_kept(self, ledger: Ledger, clock: Clock) -> None:
        lake = await make.lake(ledger)
        for _ in range(2):
            clock.advance(1)
            for kind in (ReportKind.WRITER, ReportKind.LIFETIME):
                await ledger.store_report(lake.table, 0, b"", kind=kind)
        for kind in (ReportKind.WRITER, ReportKind.LIFETIME):
            [note] = await ledger.reports(lake.table, kind=kind)
            assert note.at_ms == clock.now_ms

    async def test_the_latest_report_on_a_scan_is_kept_beside_that_on_the_commit(
        self, ledger: Ledger, clock: Clock
    ) -> None:
        lake = await make.lake(ledger)
        await ledger.store_report(lake.table, 1, b"commit")
        for body in (b"first", b"second"):
            clock.advance(1)
            await ledger.store_report(lake.table, 1, body, kind=ReportKind.SCAN)
        [scan] = await ledger.reports(lake.table, kind=ReportKind.SCAN)
        assert (scan.body, scan.at_ms) == (b"second", clock.now_ms)
        assert [report.body for report in await ledger.reports(lake.table)] == [b"commit"]

    async def test_reports_are_sorted_by_version_and_paged(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, "a", "b")
        for version in (10, 2, 0, 1):
            await ledger.store_report(lake.tables[0], version, b"")
        await ledger.store_report(lake.tables[1], 5, b"")
        assert [report.version for report in await ledger.reports(lake.tables[0], limit=2)] == [0, 1]
        assert [report.version for report in await ledger.reports(lake.tables[0], after=1)] == [2, 10]

    async def test_reports_on_versions_below_one_are_deleted(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, "a", "b")
        for table in lake.tables:
            for version in range(5):
                await ledger.store_report(table, version, b"", kind=ReportKind.ACCESS)
        await ledger.store_report(lake.table, 0, b"")
        assert await ledger.delete_reports(lake.table, kind=ReportKind.ACCESS, below=4, limit=3) == 3
        assert await ledger.delete_reports(lake.table, kind=ReportKind.ACCESS, below=4, limit=3) == 1
        assert await ledger.delete_reports(lake.table, kind=ReportKind.ACCESS, below=4) == 0
        assert [each.version for each in await ledger.reports(lake.table, kind=ReportKind.ACCESS)] == [4]
        assert len(await ledger.reports(lake.tables[1], kind=ReportKind.ACCESS)) == 5
        assert len(await ledger.reports(lake.table)) == 1

    async def test_reports_are_deleted_with_their_table_and_make_no_history(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        before = await ledger.position()
        await ledger.store_report(lake.table, 0, b"")
        assert await ledger.position() == before
        await make.add(ledger, make.drop(lake.table))
        await make.add(ledger, make.erase(lake.table))
        assert await ledger.reports(lake.table) == ()

    async def test_an_erased_object_may_be_created_again_in_the_same_draft(self, ledger: Ledger) -> None:
        """A staging table becomes a table this way, and keeps its id and location."""
        lake = await make.lake(ledger)
        stage = make.stage(lake.namespace, "file:///staged/", 1000)
        await make.add(ledger, stage)
        table = make.table(lake.namespace, "new", id=stage.id, path="file:///staged/")
        await make.add(ledger, make.erase(stage.id), table, make.commit(stage.id, 0))
        found = (await ledger.lineage(stage.id)).chain[-1]
        assert (found.kind, found.name, found.revision, found.expires_at_ms) == (Kind.TABLE, "new", 1, None)
        assert found.head is not None
        assert found.head.version == 0
        assert (await ledger.walk(make.path_to("lake", "sea", "new"))).chain[-1] == found
        assert (await ledger.children(lake.namespace, Shelf.STAGING_TABLE)).items == ()
        refusal = await to_moorage_error(ledger, LocationFree("file:///staged/below/"))
        assert refusal.actual == stage.id
