"""Reads: what they find, in which order, and at which ledger position."""

from __future__ import annotations

from moorage import fresh
from moorage.core.entries import Publish
from moorage.core.names import MAX_NAMESPACE_DEPTH, name_key
from moorage.core.securables import MAIN, Kind, Shelf
from moorage.ledger.port import Ledger, Step, Version
from moorage.testing import builders as make
from moorage.testing.builders import Clock
from moorage.testing.ledger_kit.trees import names

# Scripts, accents, ligatures, a character outside the basic multilingual plane, and punctuation that collations ignore.
NAMES = [
    "b",
    "B2",
    "a",
    "Ärger",
    "arger",
    "z",
    "ﬁn",
    "Straße",
    "строка",
    "日本",
    "🜛",
    "_x",
    "-x",
    "a b",
    "a.b",
    "ÿ",
    "~",
]


class Reads:
    async def test_a_new_ledger_contains_only_its_metastore(self, ledger: Ledger, clock: Clock) -> None:
        found = await ledger.lineage(ledger.root)
        assert [(one.kind, one.is_live) for one in found.chain] == [(Kind.METASTORE, True)]
        assert (found.position.seq, found.position.at_ms) == (1, clock.now_ms)
        assert (await ledger.children(ledger.root, Shelf.CATALOG)).items == ()

    async def test_a_walk_ignores_the_case_of_names(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, "Orders")
        await make.add(ledger, make.commit(lake.table, 1))
        found = await ledger.walk(make.path_to("LAKE", "Sea", "ORDERS"))
        assert [one.id for one in found.chain] == [lake.catalog, lake.namespace, lake.table]
        assert found.position == await ledger.position()
        assert [one.head and one.head.version for one in found.chain] == [None, None, 1]

    async def test_a_walk_stops_at_a_missing_name(self, ledger: Ledger) -> None:
        await make.lake(ledger, "t")
        assert [
            len((await ledger.walk(make.path_to(*path))).chain)
            for path in [("lake", "sea", "no"), ("lake", "no", "t"), ("no", "sea", "t")]
        ] == [2, 1, 0]

    async def test_a_walk_without_steps_finds_nothing(self, ledger: Ledger) -> None:
        found = await ledger.walk(())
        assert (found.position, found.chain) == (await ledger.position(), ())

    async def test_a_walk_looks_only_at_the_shelf_of_each_step(self, ledger: Ledger) -> None:
        await make.lake(ledger, "t")
        steps = (Step(Shelf.CATALOG, "lake"), Step(Shelf.NAMESPACE, "sea"), Step(Shelf.NAMESPACE, "t"))
        assert len((await ledger.walk(steps)).chain) == 2

    async def test_the_deepest_path_can_be_read_by_names_and_by_id(self, ledger: Ledger) -> None:
        chain = [make.catalog(ledger.root, "c")]
        for depth in range(MAX_NAMESPACE_DEPTH):
            chain.append(make.namespace(chain[-1].id, f"n{depth}"))
        chain.append(make.table(chain[-1].id, "t"))
        await make.add(ledger, *chain, make.commit(chain[-1].id, 0))
        down = await ledger.walk(make.path_to(*[change.name for change in chain]))
        up = await ledger.lineage(chain[-1].id)
        assert down == up
        assert [one.id for one in down.chain] == [change.id for change in chain]

    async def test_a_lineage_has_a_head_for_its_table_only(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        found = await ledger.lineage(lake.table)
        assert [one.head is not None for one in found.chain] == [False, False, True]
        assert found.position == await ledger.position()

    async def test_an_unknown_object_has_no_lineage(self, ledger: Ledger) -> None:
        found = await ledger.lineage(fresh.securable_id())
        assert (found.position, found.chain) == (await ledger.position(), ())

    async def test_children_are_sorted_by_name_key(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, *NAMES)
        listing = await ledger.children(lake.namespace, Shelf.RELATION)
        assert names(listing.items) == sorted(NAMES, key=name_key)
        assert listing.position == await ledger.position()
        assert all(one.head is not None for one in listing.items)

    async def test_pages_of_children_have_no_gap_and_no_overlap(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, *NAMES)
        pages: list[str] = []
        while page := (
            await ledger.children(lake.namespace, Shelf.RELATION, after=name_key(pages[-1]) if pages else "", limit=3)
        ).items:
            assert len(page) <= 3
            pages += names(page)
        assert pages == sorted(NAMES, key=name_key)

    async def test_a_page_continues_after_a_dropped_name(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, "a", "b", "c")
        await make.add(ledger, make.drop(lake.tables[1]))
        assert names((await ledger.children(lake.namespace, Shelf.RELATION, after="b")).items) == ["c"]
        assert names((await ledger.children(lake.namespace, Shelf.RELATION, after="a")).items) == ["c"]

    async def test_children_can_be_filtered_by_kind(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, "t")
        await make.add(ledger, make.create(Kind.VIEW, lake.namespace, "v"))
        shelf = Shelf.RELATION
        assert names((await ledger.children(lake.namespace, shelf, kinds=[Kind.VIEW])).items) == ["v"]
        assert names((await ledger.children(lake.namespace, shelf, kinds=[Kind.VIEW, Kind.TABLE])).items) == ["t", "v"]

    async def test_children_of_a_dropped_parent_can_still_be_listed(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, "t")
        await make.add(ledger, make.drop(lake.namespace))
        assert names((await ledger.children(lake.namespace, Shelf.RELATION)).items) == ["t"]

    async def test_an_empty_listing_has_a_ledger_position(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        listing = await ledger.children(lake.namespace, Shelf.VOLUME)
        assert (listing.position, listing.items) == (await ledger.position(), ())

    async def test_a_version_keeps_all_fields_of_its_commit(self, ledger: Ledger, clock: Clock) -> None:
        lake = await make.lake(ledger)
        clock.advance(9)
        publish = Publish(target="to", source="from")
        change = make.commit(
            lake.table, 1, operation="rewrite", digest="d", publish=publish, details={"a": [1, {"b": None}]}
        )
        receipt = await make.add(ledger, change)
        assert receipt.seq is not None
        assert await ledger.versions(lake.table, MAIN, first=1) == (
            Version(
                table=lake.table,
                ref=MAIN,
                version=1,
                seq=receipt.seq,
                at_ms=clock.now_ms,
                timestamp_ms=change.timestamp_ms,
                operation="rewrite",
                file=change.file,
                size=change.size,
                digest="d",
                publish=publish,
                details={"a": [1, {"b": None}]},
            ),
        )

    async def test_versions_are_within_their_bounds_and_sorted(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        await make.add(ledger, *[make.commit(lake.table, version) for version in range(1, 10)])
        await make.add(ledger, make.commit(lake.table, 5, ref="branch"))

        async def numbers(first: int = 0, last: int | None = None, limit: int = 1000) -> list[int]:
            found = await ledger.versions(lake.table, MAIN, first=first, last=last, limit=limit)
            return [one.version for one in found]

        assert await numbers() == list(range(10))
        assert await numbers(first=3, last=5) == [3, 4, 5]
        assert await numbers(first=3, limit=2) == [3, 4]
        assert await numbers(first=8, last=100) == [8, 9]
        assert await numbers(first=10) == []

    async def test_a_document_belongs_to_one_version(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        document = make.attached(lake.table, 1, document=b"\x00\xff{}")
        await ledger.append(make.draft(make.commit(lake.table, 1), attachments=[document]))
        assert await ledger.document(lake.table, MAIN, 1) == b"\x00\xff{}"
        assert await ledger.document(lake.table, MAIN, 0) is None
        assert await ledger.document(lake.table, "branch", 1) is None

    async def test_the_secret_of_page_tokens_never_changes(self, ledger: Ledger) -> None:
        secret = await ledger.page_secret()
        assert len(secret) >= 32
        assert await ledger.page_secret() == secret

    async def test_only_the_last_two_documents_of_a_line_are_kept(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger, "a", "b")
        for version in range(1, 5):
            documents = [
                make.attached(table, version, document=b"%d" % version) for table in (lake.table, lake.tables[1])
            ]
            commits = [make.commit(table, version) for table in (lake.table, lake.tables[1])]
            await ledger.append(make.draft(*commits, attachments=documents if version < 4 else documents[:1]))
        found = [await ledger.document(lake.table, MAIN, version) for version in range(1, 5)]
        assert found == [None, None, b"3", b"4"]
        assert await ledger.document(lake.tables[1], MAIN, 2) == b"2"

    async def test_old_documents_are_deleted_after_a_version_without_one(self, ledger: Ledger) -> None:
        lake = await make.lake(ledger)
        for version in range(1, 5):
            documents = [make.attached(lake.table, version, document=b"%d" % version)]
            await ledger.append(
                make.draft(make.commit(lake.table, version), attachments=documents if version != 3 else [])
            )
        found = [await ledger.document(lake.table, MAIN, version) for version in range(1, 5)]
        assert found == [None, None, None, b"4"]
