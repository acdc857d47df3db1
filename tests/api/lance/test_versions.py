"""Managed versioning: which manifest becomes the next version, and which errors other writers get."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from moorage.core.errors import Unavailable
from moorage.storage.local import LocalStorage
from moorage.testing import lance_writer as write
from moorage.usecases.lance.versions import KEPT_BYTES
from moorage.usecases.upkeep.publish import publish_due
from tests.api.house import House, done
from tests.api.lance.lake import LanceClient, delete, refused

T = "lake$sea$t"


@pytest.fixture
async def location(lake: LanceClient) -> str:
    return await lake.declare(T)


async def test_a_version_is_recorded_with_everything_that_its_writer_stated(
    lake: LanceClient, location: str, house: House
) -> None:
    staged = write.stage(location, 1)
    made = done(await lake.create(T, {**staged, "metadata": {"by": "ann"}}))
    final = staged["manifest_path"].rpartition("-")[0].rpartition(".manifest")[0] + ".manifest"
    version = {**staged, "manifest_path": final, "metadata": {"by": "ann"}, "timestamp_millis": house.clock.now_ms}
    assert made == {"transaction_id": str(await house.console.seq()), "version": version}
    assert done(await lake.table(T, "version/describe", {"version": 1})) == {"version": version}
    assert done(await lake.table(T, "version/describe")) == {"version": version}
    assert done(await lake.table(T, "version/list", limit=1, descending=True)) == {"versions": [version]}
    assert write.file_of(final).read_bytes() == write.file_of(staged["manifest_path"]).read_bytes()


async def test_a_declared_table_has_no_versions_and_begins_with_the_first(lake: LanceClient, location: str) -> None:
    assert await lake.versions(T) == []
    assert done(await lake.table(T, "describe", check_declared=True))["is_only_declared"] is True
    refused(await lake.table(T, "version/describe"), 404, 11)
    refused(await lake.create(T, write.stage(location, 2)), 400, 13, "version", "skips 1")
    await lake.grow(T, location, 1)
    assert done(await lake.table(T, "describe", check_declared=True))["is_only_declared"] is False


async def test_a_retry_returns_the_first_response(lake: LanceClient, location: str, house: House) -> None:
    staged = write.stage(location, 1)
    first = done(await lake.create(T, staged))
    seq = await house.console.seq()
    await lake.grow(T, location, 2)
    write.file_of(staged["manifest_path"]).unlink()
    again = done(await lake.create(T, staged))
    assert first["transaction_id"] == str(seq)
    assert again == first
    assert await lake.versions(T) == [2, 1]


async def test_a_taken_version_is_refused_and_the_winning_version_can_be_read(lake: LanceClient, location: str) -> None:
    await lake.grow(T, location, 1)
    loser = write.stage(location, 1)
    refused(await lake.create(T, loser), 409, 14, "version 1 is taken")
    found = done(await lake.table(T, "version/describe", {"version": 1}))["version"]
    assert found["manifest_path"] != loser["manifest_path"]
    # The losing writer gets the conflict even after its manifest is deleted.
    write.file_of(loser["manifest_path"]).unlink()
    refused(await lake.create(T, loser), 409, 14)


async def test_one_of_sixteen_writers_of_a_version_wins(lake: LanceClient, location: str) -> None:
    for version in range(1, 6):
        all_of_them = [write.stage(location, version) for _ in range(16)]
        answers = await asyncio.gather(*[lake.create(T, staged) for staged in all_of_them])
        won = [staged for staged, answer in zip(all_of_them, answers, strict=True) if answer.is_success]
        assert sorted(answer.status_code for answer in answers) == [200] + [409] * 15
        found = done(await lake.table(T, "version/describe", {"version": version}))["version"]
        assert (found["e_tag"], len(won)) == (won[0]["e_tag"], 1)
    assert await lake.versions(T) == [5, 4, 3, 2, 1]


def invalid_requests(location: str, other: str, outside: Path) -> dict[str, tuple[dict[str, Any], str]]:
    """Requests for version 2 that must be refused, and text that the error must contain."""
    good, foreign = write.stage(location, 2), write.stage(other, 2)
    outside.write_bytes(write.manifest())
    path, folder = good["manifest_path"], good["manifest_path"].rpartition("/")[0]
    on_branch = write.stage(location, 2, branch="dev")
    return {
        "a manifest of another table": (foreign, "manifest_path"),
        "a path outside the table": ({**good, "manifest_path": str(outside)}, "manifest_path"),
        "a path that climbs": ({**good, "manifest_path": f"{folder}/../_versions/x.manifest"}, "manifest_path"),
        "a path that hides its climbing": (
            {**good, "manifest_path": f"{folder}/%2e%2e/_versions/x.manifest"},
            "manifest_path",
        ),
        "the manifest of another version": ({**write.stage(location, 7), "version": 2}, "manifest_path"),
        "the manifest of a branch": ({**good, "manifest_path": on_branch["manifest_path"]}, "manifest_path"),
        "a branch with the manifest of the main line": ({**good, "branch": "dev"}, "manifest_path"),
        "a manifest that does not exist": ({**good, "manifest_path": path + "x"}, "does not exist"),
        "an empty path": ({**good, "manifest_path": ""}, "manifest_path"),
        "a size that is too small": ({**good, "manifest_size": good["manifest_size"] - 1}, "manifest_size"),
        "a size that is too large": ({**good, "manifest_size": good["manifest_size"] + 1}, "manifest_size"),
        "a file that is no manifest": (write.stage(location, 2, data=b"x" * 100), "footer"),
        "a manifest that was cut": (write.stage(location, 2, data=write.manifest()[5:]), "footer"),
        "an empty manifest": (write.stage(location, 2, data=b""), "footer"),
        "another naming scheme": ({**good, "naming_scheme": "V1"}, "manifest_path"),
        "an unknown naming scheme": ({**good, "naming_scheme": "V3"}, "naming_scheme"),
        "version 0": ({**good, "version": 0}, "version"),
        "a negative version": ({**good, "version": -1}, "version"),
        "a gap": (write.stage(location, 4), "skips 2"),
        "a branch that cannot be": ({**good, "branch": "../x"}, "branch"),
    }


async def test_an_invalid_manifest_is_refused_with_a_reason_and_nothing_is_written(
    lake: LanceClient, location: str, house: House, tmp_path: Path
) -> None:
    other = await lake.declare("lake$sea$other")
    for table, where in ((T, location), ("lake$sea$other", other)):
        await lake.grow(table, where, 1)
    seq = await house.console.seq()
    for what, (body, expected) in invalid_requests(location, other, tmp_path / "18446744073709551613.manifest").items():
        error = refused(await lake.create(T, body), 400, 13)
        assert expected in error, f"{what}: {error}"
    refused(await lake.create("lake$sea$none", write.stage(location, 2)), 404, 4, "lake.sea.none")
    refused(await lake.create("lake$none$t", write.stage(location, 2)), 404, 1, "lake.none")
    refused(await lake.create("none$t", write.stage(location, 2)), 404, 1, "none")
    assert await house.console.seq() == seq
    assert await lake.versions(T) == [1]


def write_without_the_catalog(location: str, version: int) -> Path:
    """Write a version as pylance does when it has only the location."""
    staged = write.file_of(write.stage(location, version)["manifest_path"])
    return staged.rename(staged.with_name(write.final_name(version)))


async def test_a_version_that_was_written_without_the_catalog_blocks_no_writer(
    lake: LanceClient, location: str
) -> None:
    await lake.grow(T, location, 1)
    unratified = [write_without_the_catalog(location, version) for version in (2, 3)]
    content = unratified[0].read_bytes()
    # A writer that reads the folder finds version 3 as the newest, and builds on it.
    refused(await lake.create(T, write.stage(location, 4)), 409, 14, "version 2 was written without the catalog")
    assert [each.exists() for each in unratified] == [False, False]
    assert [found.read_bytes() for found in unratified[0].parent.glob(f"{unratified[0].name}-*")] == [content]
    refused(await lake.create(T, write.stage(location, 4)), 400, 13, "skips 2")
    await lake.grow(T, location, 2, 3)


async def test_a_version_that_was_written_without_the_catalog_does_not_block_a_declared_table(
    lake: LanceClient, location: str
) -> None:
    unratified = write_without_the_catalog(location, 1)
    refused(
        await lake.create(T, write.stage(location, 2)), 409, 14, "version 1 was written without the catalog", "none"
    )
    assert not unratified.exists()
    refused(await lake.create(T, write.stage(location, 2)), 400, 13, "skips 1")
    await lake.grow(T, location, 1, 2)


async def test_an_unratified_manifest_in_a_registered_folder_is_left_alone(lake: LanceClient, location: str) -> None:
    await lake.grow(T, location, 1)
    done(await lake.table(T, "deregister"))
    done(await lake.table(T, "register", {"location": location}))
    unratified = write_without_the_catalog(location, 2)
    refused(await lake.create(T, write.stage(location, 3)), 400, 13, "written without the catalog", unratified.name)
    assert unratified.exists()


async def test_manifests_may_have_names_of_the_v1_scheme(lake: LanceClient, location: str) -> None:
    staged = write.stage(location, 1, scheme="V1")
    made = done(await lake.create(T, staged))["version"]
    assert made["manifest_path"].endswith("/_versions/1.manifest")
    assert made["naming_scheme"] == "V1"
    without = {key: value for key, value in write.stage(location, 2).items() if key != "naming_scheme"}
    assert done(await lake.create(T, without))["version"]["naming_scheme"] == "V2"


async def test_the_size_and_the_etag_of_a_manifest_are_optional(lake: LanceClient, location: str) -> None:
    staged = write.stage(location, 1)
    bare = {name: staged[name] for name in ("version", "manifest_path")}
    made = done(await lake.create(T, bare))["version"]
    assert (made["manifest_size"], made.get("e_tag")) == (staged["manifest_size"], None)


async def test_a_branch_begins_at_its_fork_and_has_versions_of_its_own(lake: LanceClient, location: str) -> None:
    await lake.grow(T, location, 1, 2, 3)
    refused(await lake.table(T, "version/list", branch="dev"), 404, 22, "dev")
    refused(await lake.table(T, "version/describe", {"branch": "dev"}), 404, 22)
    await lake.grow(T, location, 2, 3, 4, branch="dev")
    await lake.grow(T, location, 1, branch="feature/x")
    refused(await lake.create(T, write.stage(location, 4, branch="dev")), 409, 14)
    refused(await lake.create(T, write.stage(location, 6, branch="dev")), 400, 13)
    assert await lake.versions(T, branch="dev") == [4, 3, 2]
    assert await lake.versions(T, branch="feature/x") == [1]
    assert await lake.versions(T, branch="main") == await lake.versions(T) == [3, 2, 1]
    found = done(await lake.table(T, "version/describe", {"version": 4, "branch": "dev"}))["version"]
    assert "/tree/dev/_versions/" in found["manifest_path"]


async def test_versions_are_listed_page_by_page_in_both_orders(lake: LanceClient, location: str) -> None:
    await lake.grow(T, location, *range(1, 8))
    for descending in (True, False):
        numbers, token = [], None
        for _ in range(3):
            query = {"limit": 3, "descending": descending, **({"page_token": token} if token else {})}
            page = done(await lake.table(T, "version/list", **query))
            numbers += [each["version"] for each in page["versions"]]
            token = page.get("page_token")
        assert token is None
        assert numbers == sorted(range(1, 8), reverse=descending)
    token = done(await lake.table(T, "version/list", limit=3))["page_token"]
    for foreign in ({"page_token": token, "descending": True}, {"page_token": token[:-2] + "xx"}):
        refused(await lake.table(T, "version/list", **foreign), 400, 13, "page_token")


async def test_a_version_that_a_client_cleaned_up_is_neither_listed_nor_described(
    lake: LanceClient, location: str, house: House
) -> None:
    await lake.grow(T, location, 1, 2, 3, 4)
    house.clock.advance(10_000)
    await publish_due(house.ports)
    for file in (write.folder_of(location) / "_versions").iterdir():
        if write.final_name(2) in file.name or write.final_name(4) in file.name:
            file.unlink()
    # The newest is always listed: a writer must not reuse its number.
    assert await lake.versions(T) == [4, 3, 1]
    refused(await lake.table(T, "version/describe", {"version": 2}), 404, 11)
    refused(await lake.create(T, write.stage(location, 2)), 409, 14)


async def test_a_manifest_that_is_too_large_for_the_ledger_is_made_durable(
    lake: LanceClient, location: str, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[str] = []
    keep = LocalStorage.make_durable

    async def watched(storage: LocalStorage, root: str, path: str) -> None:
        await keep(storage, root, path)
        kept.append(path.rpartition("/")[2])

    monkeypatch.setattr(LocalStorage, "make_durable", watched)
    await lake.grow(T, location, 1)
    assert kept == []
    large = write.stage(location, 2, data=write.manifest(b"x" * (KEPT_BYTES + 1)))
    done(await lake.create(T, large))
    assert kept == [write.file_of(large["manifest_path"]).name]


async def test_a_published_manifest_has_its_final_name_only(
    lake: LanceClient, location: str, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = write.manifest(b"x" * (KEPT_BYTES + 1))
    staged = [write.stage(location, 1), write.stage(location, 2, data=large), write.stage(location, 3)]
    for each in staged[:2]:
        done(await lake.create(T, each))

    async def dies(*_: Any) -> None:
        raise Unavailable("the server is stopping")

    with monkeypatch.context() as stopping:  # between the last two steps
        stopping.setattr(house.ledger, "record_published", dies)
        assert await publish_due(house.ports) == 0
    assert await publish_due(house.ports) == 2
    names = {file.name for file in (write.folder_of(location) / "_versions").iterdir()}
    unknown = write.file_of(staged[2]["manifest_path"]).name
    assert names == {write.final_name(1), write.final_name(2), unknown}
    assert (await lake.versions(T), done(await lake.create(T, staged[1]))["version"]["version"]) == ([2, 1], 2)
    done(await lake.create(T, staged[2]))
    assert await lake.versions(T) == [3, 2, 1]


async def test_publishing_does_not_restore_a_branch_that_a_client_deleted(
    lake: LanceClient, location: str, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lake.grow(T, location, 1)
    await lake.grow(T, location, 1, 2, branch="dev")
    folder = write.folder_of(location) / "tree" / "dev"
    shutil.rmtree(folder)
    await publish_due(house.ports)
    assert not folder.exists()
    refused(await lake.table(T, "version/list", branch="dev"), 404, 22)

    put_new = LocalStorage.put_new

    async def too_late(storage: LocalStorage, root: str, path: str, data: bytes) -> bool:
        shutil.rmtree(folder)
        return await put_new(storage, root, path, data)

    await lake.grow(T, location, 1, branch="dev")
    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "put_new", too_late)
        await publish_due(house.ports)
    assert [file for file in folder.rglob("*") if file.is_file()] == []
    await lake.grow(T, location, 1, 2, branch="dev")
    assert await publish_due(house.ports) == 2
    assert await lake.versions(T, branch="dev") == [2, 1]


async def test_a_manifest_that_was_written_under_its_final_name_keeps_it(
    lake: LanceClient, location: str, house: House
) -> None:
    staged = write.stage(location, 1)
    file = write.file_of(staged["manifest_path"])
    final = file.rename(file.with_name(write.final_name(1)))
    done(await lake.create(T, {**staged, "manifest_path": str(final).lstrip("/")}))
    assert await publish_due(house.ports) == 1
    assert final.exists()


async def test_a_manifest_that_cannot_be_linked_gets_its_final_name_when_published(
    lake: LanceClient, location: str, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cannot(*_: Any, **__: Any) -> bool:
        return False

    monkeypatch.setattr(house.ports.storage, "link", cannot)
    staged = write.stage(location, 1)
    content = write.file_of(staged["manifest_path"]).read_bytes()
    assert done(await lake.create(T, staged))["version"]["manifest_path"] == staged["manifest_path"]
    assert await publish_due(house.ports) == 1
    final = done(await lake.table(T, "version/describe"))["version"]["manifest_path"]
    assert final.endswith(write.final_name(1))
    assert write.file_of(final).read_bytes() == content
    assert not write.file_of(staged["manifest_path"]).exists()


async def test_versions_are_deleted_in_half_open_ranges_and_their_numbers_are_not_reused(
    lake: LanceClient, location: str
) -> None:
    await lake.grow(T, location, *range(1, 11))

    async def gone(*ranges: tuple[int, int]) -> int:
        body = {"ranges": [{"start_version": start, "end_version": end} for start, end in ranges]}
        return int(done(await lake.table(T, "version/delete", body))["deleted_count"])

    assert await gone((0, 2)) == 1
    assert await gone((4, 5), (4, 6), (4, 4)) == 2
    assert await gone((4, 6)) == 0
    assert await lake.versions(T) == [10, 9, 8, 7, 6, 3, 2]
    assert await gone((9, 100)) == 2
    refused(await lake.table(T, "version/describe", {"version": 9}), 404, 11)
    refused(await lake.create(T, write.stage(location, 9)), 409, 14)
    await lake.grow(T, location, 11)
    assert await gone((7, -1)) == 3
    assert await lake.versions(T) == [6, 3, 2]
    assert await gone((0, -1)) == 3
    assert await lake.versions(T) == []
    await lake.grow(T, location, 12)
    assert (write.folder_of(location) / "_versions" / write.final_name(3)).exists()


async def test_an_invalid_range_is_refused_by_its_position(lake: LanceClient, location: str, house: House) -> None:
    await lake.grow(T, location, 1, 2)
    seq = await house.console.seq()
    for start, end in ((2, 1), (-1, 2), (-1, -1), (0, -2)):
        body = {"ranges": [{"start_version": 0, "end_version": 1}, {"start_version": start, "end_version": end}]}
        refused(await lake.table(T, "version/delete", body), 400, 13, "ranges[1]")
    refused(await lake.table(T, "version/delete", {"branch": "dev", "ranges": []}), 404, 22)
    assert await house.console.seq() == seq


async def test_a_tagged_version_cannot_be_deleted_before_its_tag(lake: LanceClient, location: str) -> None:
    await lake.grow(T, location, 1, 2, 3)
    await lake.grow(T, location, 2, 3, branch="dev")
    tags = write.folder_of(location) / "_refs" / "tags"
    tags.mkdir(parents=True)
    (tags / "gold.json").write_text('{"branch": null, "version": 2, "manifestSize": 1}')
    (tags / "try.json").write_text('{"branch": "dev", "version": 3, "manifestSize": 1}')
    all_of_it = {"ranges": [{"start_version": 0, "end_version": -1}]}
    refused(await lake.table(T, "version/delete", all_of_it), 409, 19, "gold")
    refused(await lake.table(T, "version/delete", {**all_of_it, "branch": "dev"}), 409, 19, "try")
    assert await lake.versions(T) == [3, 2, 1]
    (tags / "gold.json").unlink()
    assert done(await lake.table(T, "version/delete", all_of_it))["deleted_count"] == 3
    assert await lake.versions(T, branch="dev") == [3, 2]


async def test_the_newest_version_is_the_newest_that_is_not_deleted(lake: LanceClient, location: str) -> None:
    async def newest() -> list[Any]:
        described, version = await lake.table(T, "describe", {}), await lake.table(T, "version/describe", {})
        return [done(described).get("version"), version.json().get("version", {}).get("version")]

    await lake.grow(T, location, 1, 2, 3, 4)
    for ranges, left in (([[1, 2], [4, -1]], 3), ([[3, 4]], 2)):
        listed = [{"start_version": start, "end_version": end} for start, end in ranges]
        done(await lake.table(T, "version/delete", {"ranges": listed}))
        assert await newest() == [left, left]
    await lake.grow(T, location, 5)
    assert await newest() == [5, 5]
    done(await lake.commit(delete(T, (0, -1))))
    assert await newest() == [None, None]
