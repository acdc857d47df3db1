"""Case H: hints. The tests count files."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from moorage.usecases.sharing.hints import NotUnderstood, parse_sql_hint
from tests.api.sharing.logs import VECTORS, commit
from tests.api.sharing.provider import DELTA, Provider, Recipient, at, files_of, lines_of
from tests.snapshots.log_builder import PROTOCOL, add, metadata, statistics, vector

Json = dict[str, Any]
ALL = "abcdef"


def column(name: str, kind: str) -> Json:
    return {"op": "column", "name": name, "valueType": kind}


def literal(value: Any, kind: str) -> Json:
    return {"op": "literal", "value": value, "valueType": kind}


def op(name: str, *children: Json) -> Json:
    return {"op": name, "children": list(children)}


def compare(name: str, left: str, kind: str, value: str) -> Json:
    return op(name, column(left, kind), literal(value, kind))


MIRRORED = {
    "equal": "equal",
    "lessThan": "greaterThan",
    "lessThanOrEqual": "greaterThanOrEqual",
    "greaterThan": "lessThan",
    "greaterThanOrEqual": "lessThanOrEqual",
}


def mirrored(hint: Json) -> Json:
    """The same predicate with the operands of each comparison exchanged."""
    if hint["op"] in MIRRORED:
        return op(MIRRORED[hint["op"]], *reversed(hint["children"]))
    return op(hint["op"], *map(mirrored, hint["children"])) if hint["op"] in ("and", "or", "not") else hint


@pytest.fixture
async def shared(provider: Provider) -> Provider:
    """Files a to e have a partition and bounds, from low to high; the partition of e is null, and f has no bounds."""
    described = metadata({"p": "integer", "q": "string", "n": "long", "s": "string"}, partitions=["p", "q"])
    files = [
        add(
            name,
            partitionValues={"p": None if name == "e" else str(number), "q": f"q{number}"},
            stats=statistics(n=(number * 10, number * 10 + 9, 0), s=(f"k{number}", f"k{number}z", 0)),
        )
        for number, name in enumerate("abcde")
    ]
    commit(provider.log(), PROTOCOL, described, *files, add("f", partitionValues={"p": "2", "q": "q2"}))
    await provider.offer()
    return provider


async def names(recipient: Recipient, *, headers: Any = None, **body: Any) -> str:
    """The files of a response, by the names that their ids stand for."""
    lines = lines_of(await recipient.post(f"{at('t')}/query", body, headers=headers or {"fileidhash": "delta"}))
    known = {hashlib.sha256(name.encode()).hexdigest(): name for name in "abcdefgh"}
    return "".join(sorted(known[file["id"]] for file in files_of(lines)))


PARTITIONS = [
    (compare("equal", "p", "int", "2"), "cf"),
    (compare("equal", "P", "long", "2"), "cf"),
    (compare("lessThan", "p", "int", "2"), "ab"),
    (compare("lessThanOrEqual", "p", "int", "2"), "abcf"),
    (compare("greaterThan", "p", "int", "2"), "d"),
    (compare("greaterThanOrEqual", "p", "int", "2"), "cdf"),
    (op("isNull", column("p", "int")), "e"),
    (op("not", op("isNull", column("p", "int"))), "abcdf"),
    (op("not", compare("equal", "p", "int", "2")), "abd"),
    (op("and", compare("greaterThan", "p", "int", "0"), compare("lessThan", "p", "int", "2")), "b"),
    (op("or", compare("equal", "p", "int", "0"), compare("equal", "q", "string", "q4")), "ae"),
    (op("not", op("or", compare("equal", "p", "int", "0"), compare("equal", "p", "int", "1"))), "cdf"),
    (op("or", op("isNull", column("p", "int")), compare("equal", "p", "int", "3")), "de"),
]


@pytest.mark.parametrize(("hint", "expected"), PARTITIONS)
async def test_case_h1_and_h2_partitions_are_compared_in_both_orders(
    shared: Provider, recipient: Recipient, hint: Json, expected: str
) -> None:
    assert await names(recipient, jsonPredicateHints=json.dumps(hint)) == expected
    assert await names(recipient, jsonPredicateHints=json.dumps(mirrored(hint))) == expected


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (compare("equal", "n", "long", "15"), "bf"),
        (compare("lessThan", "n", "long", "10"), "af"),
        (compare("greaterThanOrEqual", "n", "int", "39"), "def"),
        (compare("equal", "s", "string", "k1"), "bf"),
        (op("and", compare("greaterThan", "n", "long", "14"), compare("lessThan", "n", "long", "31")), "bcdf"),
        (op("and", compare("equal", "p", "int", "2"), compare("equal", "n", "long", "25")), "cf"),
        (op("and", compare("equal", "p", "int", "1"), compare("equal", "n", "long", "25")), ""),
        (op("isNull", column("n", "long")), "f"),
    ],
)
async def test_case_h3_and_h4_bounds_and_partitions_skip_files(
    shared: Provider, recipient: Recipient, hint: Json, expected: str
) -> None:
    assert await names(recipient, jsonPredicateHints=json.dumps(hint)) == expected
    assert await names(recipient, jsonPredicateHints=json.dumps(mirrored(hint))) == expected


def nested(depth: int) -> str:
    inner = json.dumps(compare("equal", "p", "int", "2"))
    return '{"op":"not","children":[' * depth + inner + "]}" * depth


@pytest.mark.parametrize(
    "hint",
    [
        "",
        "{",
        "[]",
        "null",
        json.dumps(op("like", column("p", "int"), literal("2", "int"))),
        json.dumps(compare("equal", "unknown", "int", "2")),
        json.dumps(op("and", compare("equal", "p", "int", "2"), compare("equal", "unknown", "int", "2"))),
        json.dumps(op("equal", column("p", "int"))),
        json.dumps(op("and", compare("equal", "p", "int", "2"))),
        json.dumps(op("not", *[compare("equal", "p", "int", "2")] * 2)),
        json.dumps(op("equal", column("p", "int"), column("n", "int"))),
        json.dumps(op("equal", literal("1", "int"), literal("2", "int"))),
        json.dumps(compare("equal", "p", "int", "two")),
        json.dumps(compare("equal", "p", "int", "9" * 400)),
        json.dumps(compare("equal", "p", "uuid", "2")),
        json.dumps(compare("equal", "p", "string", "2")),
        json.dumps(compare("lessThan", "q", "int", "2")),
        json.dumps(op("isNull", literal("1", "int"))),
        nested(200),
        nested(20_000),
        json.dumps(compare("equal", "q", "string", "x" * 1024 * 1024)),
    ],
    ids=lambda text: text[:40],
)
async def test_case_h5_and_h6_what_is_not_understood_is_ignored(
    shared: Provider, recipient: Recipient, hint: str
) -> None:
    assert await names(recipient, jsonPredicateHints=hint) == ALL
    assert await names(recipient, jsonPredicateHints=hint, limitHint=1) == ALL


TYPES = [
    ("boolean", "bool", "true", "false", "true"),
    ("integer", "int", "9", "10", "9"),
    ("long", "long", "9", "10", "9"),
    ("string", "string", "9", "10", "9"),
    ("date", "date", "2021-04-29", "2021-04-30", "2021-04-29"),
    ("float", "float", "1.1", "10.5", "1.1"),
    ("double", "double", "1.1", "10.5", "1.1"),
    ("timestamp", "timestamp", "2021-04-29T10:00:00Z", "2021-04-29T11:00:00Z", "2021-04-29T12:00:00.000000+02:00"),
]


@pytest.mark.parametrize(("kind", "value_type", "first", "second", "wanted"), TYPES)
async def test_case_h7_values_are_compared_by_their_type(
    provider: Provider, recipient: Recipient, kind: str, value_type: str, first: str, second: str, wanted: str
) -> None:
    files = [add("a", partitionValues={"p": first}), add("b", partitionValues={"p": second})]
    bounds = [json.loads(text) if kind in NUMBERS else text for text in (first, second)]
    files += [
        add(name, stats=statistics(v=(bound, bound, 0)), partitionValues={"p": None})
        for name, bound in zip("cd", bounds, strict=True)
    ]
    commit(provider.log(), PROTOCOL, metadata({"p": kind, "v": kind}, partitions=["p"]), *files)
    await provider.offer()
    assert await names(recipient, jsonPredicateHints=json.dumps(compare("equal", "p", value_type, wanted))) == "a"
    assert await names(recipient, jsonPredicateHints=json.dumps(compare("equal", "v", value_type, wanted))) == "abc"


NUMBERS = ("integer", "long", "float", "double", "boolean")


async def test_case_h8_to_h10_a_file_that_may_match_is_kept(provider: Provider, recipient: Recipient) -> None:
    loose = json.loads(statistics(n=(10, 19, 0)))
    files = [
        add("a"),
        add("b", stats=json.dumps({"numRecords": 1})),
        add("c", stats=statistics(s=("aaa", "zz\U0010ffff", 0))),
        add("d", stats=json.dumps({**loose, "tightBounds": False}), deletionVector=vector("v")),
        add("e", stats=statistics(n=(0, 9, 0), s=("a", "b", 0))),
    ]
    commit(provider.log(), VECTORS, metadata({"n": "long", "s": "string"}), *files)
    await provider.offer()
    text = json.dumps(compare("equal", "s", "string", "zzz"))
    assert await names(recipient, headers=DELTA, jsonPredicateHints=text) == "abcd"
    number = json.dumps(compare("equal", "n", "long", "15"))
    assert await names(recipient, headers=DELTA, jsonPredicateHints=number) == "abcd"


@pytest.mark.parametrize(
    ("hints", "expected"),
    [
        (["p = 2"], "cf"),
        (["2 = p"], "cf"),
        (["q = 'q1'"], "b"),
        (["q > 'q1'"], "cdef"),
        (["'q1' < q"], "cdef"),
        (["p >= 2"], "cdf"),
        (["2 <= p"], "cdf"),
        (["p <= 1"], "ab"),
        (["1 >= p"], "ab"),
        (["p <> 2"], "abd"),
        (["2 != p"], "abd"),
        (["p IS NULL"], "e"),
        (["p is not null"], "abcdf"),
        (["p > 0", "p < 2"], "b"),
        (["n = 15"], "bf"),
        (["`n` >= 30", "p IS NOT NULL"], "df"),
        (["(p = 0 OR p = 1) AND NOT q = 'q0'"], "b"),
        (["p IN (0, 3)"], "ad"),
        (["q NOT IN ('q0', 'q1')"], "cdef"),
        (["p = '2'"], "cf"),
        (["s = 'k2'"], "cf"),
    ],
)
async def test_case_h11_sql_hints_skip_files(
    shared: Provider, recipient: Recipient, hints: list[str], expected: str
) -> None:
    assert await names(recipient, predicateHints=hints) == expected


@pytest.mark.parametrize(
    "hint",
    [
        "",
        "p =",
        "= 2",
        "p = 2 2",
        "p LIKE '2%'",
        "abs(p) = 2",
        "p = n",
        "unknown = 2",
        "p = 2 OR upper(q) = 'Q1'",
        "p = 2.5.1",
        "q = 2",
        "q = 'it\\'s'",
        "p <=> 2",
        "p BETWEEN 1 AND 2",
        "p = 'two'",
        "(" * 300 + "p = 2" + ")" * 300,
        "p = 2 -- ",
        "p IS 2",
        "p < 2.5",
        "p = 99999999999999999999",
        "p = true",
    ],
    ids=lambda text: text[:20],
)
async def test_case_h12_a_hint_that_does_not_parse_is_skipped(
    shared: Provider, recipient: Recipient, hint: str
) -> None:
    assert await names(recipient, predicateHints=[hint]) == ALL
    assert await names(recipient, predicateHints=[hint], limitHint=1) == ALL
    assert await names(recipient, predicateHints=[hint, "p = 2"]) == "cf"


async def test_sql_hints_that_take_long_to_parse_are_ignored_together(shared: Provider, recipient: Recipient) -> None:
    for hints in (["p = 2 AND " * 7_000 + "p = 2"], ["p = 2"] * 20_000):
        assert await names(recipient, predicateHints=hints) == ALL
        assert await names(recipient, predicateHints=hints, limitHint=1) == ALL


async def test_hints_on_a_column_with_a_collation_are_ignored(provider: Provider, recipient: Recipient) -> None:
    """Readers may compare its texts without regard to case. The bounds are in the order of bytes."""
    described = metadata({"q": "string", "s": "string"}, partitions=["q"])
    schema = json.loads(described["metaData"]["schemaString"])
    for field in schema["fields"]:
        field["metadata"] = {"__COLLATIONS": {field["name"]: "spark.UTF8_LCASE"}}
    described["metaData"]["schemaString"] = json.dumps(schema)
    texts = {"a": "Oslo", "b": "Rome"}
    files = [add(name, partitionValues={"q": t}, stats=statistics(s=(t, t, 0))) for name, t in texts.items()]
    commit(provider.log(), PROTOCOL, described, *files)
    await provider.offer()
    for name in ("q", "s"):
        assert await names(recipient, predicateHints=[f"{name} = 'rome'"], limitHint=1) == "ab"
        hint = compare("equal", name, "string", "rome")
        assert await names(recipient, jsonPredicateHints=json.dumps(hint)) == "ab"


async def test_a_comparison_by_a_collation_is_ignored(shared: Provider, recipient: Recipient) -> None:
    hint = compare("equal", "q", "string", "Q1")
    assert await names(recipient, jsonPredicateHints=json.dumps({**hint, "exprCtx": None})) == ""
    collated = {**hint, "exprCtx": {"collationIdentifier": "spark.UTF8_LCASE.75.1"}}
    assert await names(recipient, jsonPredicateHints=json.dumps(collated)) == ALL


@pytest.mark.parametrize("number", ["1e-999999999", "1e999999999"])
def test_a_number_that_takes_seconds_to_compare_is_not_understood(number: str) -> None:
    with pytest.raises(NotUnderstood):
        parse_sql_hint(f"d < {number}", lambda _: "decimal")


async def test_case_h13_to_h15_a_limit_selects_enough_files(provider: Provider, recipient: Recipient) -> None:
    files = [
        add("a"),
        add("b", stats=statistics(10)),
        add("c", stats=statistics(10), deletionVector=vector("v")),
        add("d", stats=statistics(10)),
        add("e", stats=statistics(10)),
    ]
    commit(provider.log(), VECTORS, metadata(), *files)
    await provider.offer()
    for limit, expected in ((1, "ab"), (10, "ab"), (11, "abc"), (18, "abc"), (19, "abcd"), (1000, "abcde")):
        assert await names(recipient, headers=DELTA, limitHint=limit) == expected


async def test_case_h16_a_limit_follows_a_predicate_that_is_certain(shared: Provider, recipient: Recipient) -> None:
    assert await names(recipient, predicateHints=["p >= 1"], limitHint=1) == "b"
    assert await names(recipient, predicateHints=["p >= 1"], limitHint=15) == "bc"
    assert await names(recipient, predicateHints=["n >= 15"], limitHint=1) == "bcdef"
    assert await names(recipient, predicateHints=["p >= 1", "nonsense"], limitHint=1) == "bcdf"


async def test_case_h17_and_h18_limits_of_any_size(shared: Provider, recipient: Recipient) -> None:
    assert await names(recipient, limitHint=0) == ""
    assert await names(recipient, limitHint=2**40) == ALL
    assert (await recipient.query(limitHint=-1)).status_code == 400
