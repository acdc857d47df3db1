"""Case Q: the files of the newest version."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from moorage.formats.sharing import file_lines
from moorage.formats.sharing.file_lines import to_tails
from moorage.testing.builders import HOUR_MS
from tests.api.sharing.logs import MAPPED, VECTORS, commit, mapped_metadata, write_history
from tests.api.sharing.provider import DELTA, Provider, Recipient, at, error_of, files_of, lines_of
from tests.snapshots.log_builder import PROTOCOL, add, metadata, statistics, vector


@pytest.fixture
async def shared(provider: Provider) -> Provider:
    """One file of real bytes, in a folder whose name is encoded twice."""
    folder = provider.folder / "t" / "p=a%2Fb c"
    folder.mkdir(parents=True)
    (folder / "x.bin").write_bytes(bytes(range(256)))
    described = metadata({"id": "long", "p": "string"}, partitions=["p"])
    path = quote("p=a%2Fb c/x.bin")
    file = add(path, size=256, stats=statistics(id=(0, 9, 0)), partitionValues={"p": "a/b c"}, tags={"x": "y"})
    commit(provider.log(), PROTOCOL, described, file)
    await provider.offer()
    return provider


async def url_of(recipient: Recipient, **given: Any) -> str:
    return str(files_of(lines_of(await recipient.query(**given)))[0]["url"])


async def test_case_q1_one_line_per_file(provider: Provider, recipient: Recipient) -> None:
    write_history(provider.log())
    await provider.offer()
    protocol, described, *files = lines_of(await recipient.query())
    assert (set(protocol), set(described), len(files)) == ({"protocol"}, {"metaData"}, 2)


async def test_case_q2_a_file_in_parquet_format(shared: Provider, recipient: Recipient) -> None:
    (file,) = files_of(lines_of(await recipient.query()))
    assert set(file) == {"url", "id", "partitionValues", "size", "stats", "expirationTimestamp"}
    assert (file["partitionValues"], file["size"]) == ({"p": "a/b c"}, 256)
    assert json.loads(file["stats"])["numRecords"] == 10
    assert file["expirationTimestamp"] == shared.ports.now_ms() + HOUR_MS


async def test_case_q3_a_file_in_delta_format(shared: Provider, recipient: Recipient) -> None:
    (file,) = files_of(lines_of(await recipient.post(f"{at('t')}/query", headers=DELTA)))
    assert set(file) == {"id", "expirationTimestamp", "deltaSingleAction"}
    written = json.loads((shared.log().log / f"{0:020}.json").read_text().splitlines()[2])["add"]
    shown = file["deltaSingleAction"]["add"]
    assert {**written, "path": ""} == {**shown, "path": ""}
    assert (await recipient.http.get(shown["path"])).content == bytes(range(256))


async def test_case_q4_ids_are_stable(shared: Provider, recipient: Recipient) -> None:
    path = quote("p=a%2Fb c/x.bin").encode()
    ids = {files_of(lines_of(await recipient.query()))[0]["id"] for _ in range(2)}
    assert ids == {hashlib.md5(path).hexdigest()}
    (file,) = files_of(lines_of(await recipient.post(f"{at('t')}/query", headers=DELTA)))
    assert file["id"] == hashlib.sha256(path).hexdigest()


async def test_case_q5_a_url_returns_the_exact_bytes(shared: Provider, recipient: Recipient) -> None:
    url = await url_of(recipient)
    answer = await recipient.http.get(url)
    assert (answer.status_code, answer.content) == (200, bytes(range(256)))
    assert "X-Amz-Signature=" in url
    assert "p=" not in urlsplit(url).path
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers.get_list("content-security-policy")


async def test_case_q6_an_altered_url_opens_nothing(shared: Provider, recipient: Recipient) -> None:
    url = await url_of(recipient)
    (shared.folder / "t" / "secret").write_bytes(b"secret")
    address, _, signature = url.partition("?")
    permit = address.rpartition(".")[0]
    other = base64.urlsafe_b64encode(b"secret").decode().rstrip("=")
    forged = base64.urlsafe_b64encode(b"../../data").decode().rstrip("=")
    for altered in (
        f"{permit}.{other}?{signature}",
        f"{permit}.{forged}?{signature}",
        f"{address}x?{signature}",
        f"{address}?X-Amz-Signature=",
        f"{url}0",
        address,
        f"{address}?X-Amz-Signature={'0' * 40}",
        f"{permit}?{signature}",
    ):
        error_of(await recipient.http.get(altered), 403, "PERMISSION_DENIED")
        assert (await recipient.http.head(altered)).status_code == 403


async def test_case_q7_a_url_expires(shared: Provider, recipient: Recipient) -> None:
    url = await url_of(recipient)
    shared.house.clock.advance(HOUR_MS - 1)
    assert (await recipient.http.get(url)).status_code == 200
    shared.house.clock.advance(1)
    assert "expired" in error_of(await recipient.http.get(url), 403, "PERMISSION_DENIED")


async def test_a_url_ends_with_the_grant_and_with_its_terms(shared: Provider, recipient: Recipient) -> None:
    url = await url_of(recipient)
    await shared.change_recipient(shared.details(recipient))
    error_of(await recipient.http.get(url), 403)
    await shared.change_recipient(shared.details(recipient, shared.share.id, addresses=("10.0.0.0/8",)))
    error_of(await recipient.http.get(url), 403)
    await shared.change_recipient(shared.details(recipient, shared.share.id, tokens=()))
    error_of(await recipient.http.get(url), 403)
    await shared.change_recipient(shared.details(recipient, shared.share.id))
    assert (await recipient.http.get(url)).status_code == 200


async def test_a_file_behind_a_link_is_not_served(shared: Provider, recipient: Recipient) -> None:
    url = await url_of(recipient)
    file = shared.folder / "t" / "p=a%2Fb c" / "x.bin"
    secret = shared.folder.parent / "secret"
    secret.write_bytes(b"secret")
    file.unlink()
    assert (await recipient.http.get(url)).status_code == 404
    file.symlink_to(secret)
    answer = await recipient.http.get(url)
    assert answer.status_code >= 400
    assert b"secret" not in answer.content


@pytest.mark.parametrize(
    ("header", "expected", "content_range"),
    [
        ("bytes=0-0", b"\x00", "bytes 0-0/256"),
        ("bytes=10-19", bytes(range(10, 20)), "bytes 10-19/256"),
        ("bytes=250-", bytes(range(250, 256)), "bytes 250-255/256"),
        ("bytes=250-999", bytes(range(250, 256)), "bytes 250-255/256"),
        ("bytes=-4", bytes(range(252, 256)), "bytes 252-255/256"),
        ("bytes=-999", bytes(range(256)), "bytes 0-255/256"),
        ("bytes=0-255", bytes(range(256)), "bytes 0-255/256"),
    ],
)
async def test_case_q8_a_range_is_partial_content(
    shared: Provider, recipient: Recipient, header: str, expected: bytes, content_range: str
) -> None:
    answer = await recipient.http.get(await url_of(recipient), headers={"range": header})
    assert (answer.status_code, answer.content) == (206, expected)
    assert answer.headers["content-range"] == content_range
    assert answer.headers["content-length"] == str(len(expected))


async def test_a_range_with_thousands_of_digits_is_ignored(shared: Provider, recipient: Recipient) -> None:
    for header in (f"bytes={'9' * 5000}-", f"bytes=0-{'9' * 5000}", f"bytes=-{'9' * 5000}"):
        answer = await recipient.http.get(await url_of(recipient), headers={"range": header})
        assert (answer.status_code, len(answer.content)) == (200, 256)


async def test_a_range_that_does_not_exist_is_refused(shared: Provider, recipient: Recipient) -> None:
    url = await url_of(recipient)
    for header in ("bytes=256-", "bytes=999-1000", "bytes=-0"):
        answer = await recipient.http.get(url, headers={"range": header})
        assert (answer.status_code, answer.headers["content-range"]) == (416, "bytes */256")
    for header in ("bytes=1-2,5-6", "items=0-1", "bytes=5-2", "bytes=-", "bytes=a-b"):
        answer = await recipient.http.get(url, headers={"range": header})
        assert (answer.status_code, len(answer.content)) == (200, 256)


async def test_case_q9_the_size_of_a_file(shared: Provider, recipient: Recipient) -> None:
    answer = await recipient.http.head(await url_of(recipient))
    assert (answer.status_code, answer.content) == (200, b"")
    assert (answer.headers["content-length"], answer.headers["accept-ranges"]) == ("256", "bytes")


async def test_case_q10_reading_stops_when_the_client_disconnects(
    shared: Provider, recipient: Recipient, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shared.folder / "t" / "p=a%2Fb c" / "x.bin").write_bytes(bytes(256 * 1024 * 1024))
    storage, reads = shared.ports.storage, 0
    read_range = storage.read_range

    async def count(*args: Any, **given: Any) -> bytes | None:
        nonlocal reads
        reads += 1
        return await read_range(*args, **given)

    monkeypatch.setattr(storage, "read_range", count)
    async with recipient.http.stream("GET", await url_of(recipient)) as answer:
        assert answer.status_code == 200
    assert (await recipient.get("/shares")).status_code == 200
    before = reads
    assert (await recipient.get("/shares")).status_code == 200
    assert reads == before < 100


@pytest.mark.parametrize("body", [b"", b"  ", b"not json", b'{"predicateHints":{}}', b"[]", b'{"limitHint":"x"}'])
async def test_case_q11_to_q13_a_malformed_body_is_refused(shared: Provider, recipient: Recipient, body: bytes) -> None:
    error_of(await recipient.post(f"{at('t')}/query", body), 400, "MALFORMED_REQUEST")


async def test_case_q14_and_q15_unknown_fields_are_ignored_and_numbers_may_be_text(
    provider: Provider, recipient: Recipient
) -> None:
    write_history(provider.log())
    await provider.offer()
    answer = await recipient.query(version="2", future={"x": 1}, predicateHints=None)
    assert answer.headers["delta-table-version"] == "2"


async def test_case_q16_and_q17_an_empty_table_has_two_lines(provider: Provider, recipient: Recipient) -> None:
    commit(provider.log(), PROTOCOL, metadata())
    await provider.offer()
    answer = await recipient.query()
    assert len(lines_of(answer)) == 2
    assert "\n\n" not in answer.text


ODD = 'a\u0085b\u2028c\u2029d\r\n\x0b\x1e"\\é🚢'


async def test_case_q18_line_separators_are_escaped(provider: Provider, recipient: Recipient) -> None:
    described = metadata({"id": "long", "p": "string"}, partitions=["p"])
    described["metaData"] |= {"name": ODD, "description": ODD}
    stats = json.dumps({"numRecords": 1, "minValues": {"p": ODD}}, ensure_ascii=False)
    commit(provider.log(), PROTOCOL, described, add("a", partitionValues={"p": ODD}, stats=stats, tags={ODD: ODD}))
    await provider.offer()
    for headers in ({}, DELTA):
        answer = await recipient.post(f"{at('t')}/query", headers=headers)
        for separator in ("\u0085", "\u2028", "\u2029"):
            assert separator not in answer.text
        _, line, file = lines_of(answer)
        found = file["file"] if not headers else file["file"]["deltaSingleAction"]["add"]
        assert (found["partitionValues"], found["stats"]) == ({"p": ODD}, stats)
        shown = line["metaData"] if not headers else line["metaData"]["deltaMetadata"]
        assert shown["description"] == ODD


async def test_case_q19_and_q20_odd_partition_values_are_told_as_written(
    shared: Provider, recipient: Recipient
) -> None:
    log = shared.log()
    log.commits = [[]]
    commit(log, add("n", partitionValues={"p": None}), add("e", partitionValues={"p": ""}))
    values = {file["partitionValues"]["p"] for file in files_of(lines_of(await recipient.query()))}
    assert values == {"a/b c", None, ""}
    assert (await recipient.http.get(await url_of(recipient))).status_code == 200


async def test_case_q21_an_absolute_path_is_signed_only_inside_of_the_table(
    shared: Provider, recipient: Recipient
) -> None:
    log = shared.log()
    log.commits = [[]]
    (shared.folder / "t" / "abs").write_bytes(b"inside")
    commit(log, add(f"file://{shared.folder}/t/abs", partitionValues={"p": "z"}))
    lines = lines_of(await recipient.query(predicateHints=["p = 'z'"]))
    assert (await recipient.http.get(files_of(lines)[0]["url"])).content == b"inside"
    commit(log, add(f"file://{shared.folder}/u/secret", partitionValues={"p": "z"}))
    assert str(shared.folder) not in error_of(await recipient.query(), 500, "INTERNAL_ERROR")


async def test_case_q22_and_q23_a_checkpoint_replaces_commits_but_nothing_replaces_a_gap(
    provider: Provider, recipient: Recipient
) -> None:
    write_history(provider.log("t"))
    log = provider.log("u")
    write_history(log)
    log.checkpoint(2)
    for name, versions in (("t", (1,)), ("u", (0, 1))):
        provider.log(name).delete_commits(*versions)
        await provider.offer(name)
    assert len(files_of(lines_of(await recipient.query("u")))) == 2
    assert "/" not in error_of(await recipient.query("t"), 500, "INTERNAL_ERROR")


async def test_a_damaged_schema_is_no_fault_of_the_client(provider: Provider, recipient: Recipient) -> None:
    log = provider.log()
    commit(log, PROTOCOL, metadata(), add("a"))
    damaged = metadata()
    damaged["metaData"]["schemaString"] = "{"
    commit(log, damaged, add("b"))
    commit(log, metadata(), add("c"))
    await provider.offer()
    for body in ({"version": 1}, {"startingVersion": 0}, {"startingVersion": 1}):
        answer = await recipient.post(f"{at('t')}/query", body)
        assert "tell its provider" in error_of(answer, 500, "INTERNAL_ERROR")
    assert (await recipient.query(startingVersion=2)).status_code == 200


async def test_case_q24_and_q25_what_does_not_exist_is_not_found(provider: Provider, recipient: Recipient) -> None:
    (provider.folder / "t").mkdir()
    await provider.offer()
    message = error_of(await recipient.query(), 404, "RESOURCE_DOES_NOT_EXIST")
    assert str(provider.folder) not in message
    for path in (at("x"), at("t", "x"), at("t", "sea", "x")):
        error_of(await recipient.post(f"{path}/query"), 404, "RESOURCE_DOES_NOT_EXIST")


@pytest.fixture
async def advanced(provider: Provider) -> Provider:
    """Files with a vector in a file, an inline vector, and none."""
    log = provider.log()
    commit(
        log,
        VECTORS,
        metadata(),
        add("a", deletionVector={**vector("x"), "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4}),
        add("b", deletionVector={"storageType": "i", "pathOrInlineDv": "wi5b=", "sizeInBytes": 40, "cardinality": 6}),
        add("c", tags={"pathOrInlineDv": "\0"}),
    )
    await provider.offer()
    return provider


async def test_case_q26_the_format_rules_hold_for_queries(advanced: Provider, recipient: Recipient) -> None:
    error_of(await recipient.query(), 400, "UNSUPPORTED_OPERATION")
    headers = {"delta-sharing-capabilities": "responseformat=delta"}
    error_of(await recipient.post(f"{at('t')}/query", headers=headers), 400, "UNSUPPORTED_OPERATION")
    headers = {"delta-sharing-capabilities": "ResponseFormat=parquet,DELTA;readerFeatures=DeletionVectors"}
    answer = await recipient.post(f"{at('t')}/query", headers=headers)
    assert answer.headers["delta-sharing-capabilities"] == "responseformat=delta"


async def test_case_q27_a_deletion_vector_gets_a_url(advanced: Provider, recipient: Recipient) -> None:
    name = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"  # the example of the Delta protocol
    (advanced.folder / "t" / "ab").mkdir()
    (advanced.folder / "t" / "ab" / name).write_bytes(b"vector")
    lines = lines_of(await recipient.post(f"{at('t')}/query", headers=DELTA))
    in_file, inline, none = files_of(lines)
    found = in_file["deltaSingleAction"]["add"]["deletionVector"]
    assert (found["storageType"], found["offset"], found["sizeInBytes"], found["cardinality"]) == ("p", 4, 40, 2)
    assert (await recipient.http.get(found["pathOrInlineDv"])).content == b"vector"
    assert in_file["deletionVectorFileId"] == hashlib.sha256(f"ab/{name}".encode()).hexdigest()
    assert inline["deltaSingleAction"]["add"]["deletionVector"]["pathOrInlineDv"] == "wi5b="
    assert inline["deletionVectorFileId"]
    assert "deletionVectorFileId" not in none
    assert none["deltaSingleAction"]["add"]["tags"] == {"pathOrInlineDv": "\0"}


async def test_case_q28_physical_names_are_kept(provider: Provider, recipient: Recipient) -> None:
    described = mapped_metadata({"id": "long", "p": "string"}, partitions=["p"])
    stats = json.dumps({"numRecords": 1, "minValues": {"col-id": 1}})
    commit(provider.log(), MAPPED, described, add("a", partitionValues={"col-p": "x"}, stats=stats))
    await provider.offer()
    _, line, file = lines_of(await recipient.post(f"{at('t')}/query", headers=DELTA))
    assert line["metaData"]["deltaMetadata"] == described["metaData"]
    found = file["file"]["deltaSingleAction"]["add"]
    assert (found["partitionValues"], found["stats"]) == ({"col-p": "x"}, stats)


async def test_case_q29_and_q30_a_client_can_choose_how_ids_are_made(shared: Provider, recipient: Recipient) -> None:
    lengths = {}
    for scheme in ("parquet", "Delta"):
        answer = await recipient.post(f"{at('t')}/query", headers={"fileidhash": scheme})
        assert answer.headers["fileidhash"] == scheme.lower()
        lengths[scheme] = len(files_of(lines_of(answer))[0]["id"])
    assert lengths == {"parquet": 32, "Delta": 64}
    for wrong in ("md5", ""):
        error_of(await recipient.post(f"{at('t')}/query", headers={"fileidhash": wrong}), 400)


async def test_responses_at_the_same_time_encode_each_file_once(
    provider: Provider, recipient: Recipient, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 5_000
    encoded: list[int] = []

    def spy(files: Any, *given: Any) -> Any:
        encoded.append(files.num_rows)
        return to_tails(files, *given)

    monkeypatch.setattr(file_lines, "to_tails", spy)
    files = [add(f"f{number}.parquet") for number in range(count)]
    commit(provider.log(), PROTOCOL, metadata({"id": "long"}), *files)
    await provider.offer()
    answers = await asyncio.gather(*(recipient.query() for _ in range(3)))
    assert [len(files_of(lines_of(answer))) for answer in answers] == [count] * 3
    assert sum(encoded) == count
