"""Pruning skips the files in which a predicate cannot be true, and no others."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from moorage.formats.delta.replay import to_files
from moorage.snapshots.predicates import And, Compare, In, IsNull, Not, Or, Predicate
from moorage.snapshots.snapshots import Snapshots
from tests.snapshots.log_builder import FEATURES, PROTOCOL, LogBuilder, add, metadata, remove, statistics, vector


async def remaining(snapshots: Snapshots, log: LogBuilder, where: Predicate) -> str:
    """The names of the files that are not pruned. The names are letters, joined into one word."""
    table = await snapshots.files(await snapshots.at(log.ref()), where)
    return "".join(sorted(file.path for file in to_files(table)))


def is_(name: str, op: Any, value: Any) -> Compare:
    return Compare(tuple(name.split(".")), op, value)


def numbers(log: LogBuilder) -> None:
    """a: 0 to 9, b: 10 to 19 and a null, c: only 20, d: only nulls, e: no statistics."""
    log.commit(
        PROTOCOL,
        metadata({"n": "long"}),
        add("a", stats=statistics(10, n=(0, 9, 0))),
        add("b", stats=statistics(10, n=(10, 19, 1))),
        add("c", stats=statistics(10, n=(20, 20, 0))),
        add("d", stats=statistics(10, n=(None, None, 10))),
        add("e"),
    )


@pytest.mark.parametrize(
    ("where", "files"),
    [
        (is_("n", "=", 5), "ae"),
        (is_("n", "=", 20), "ce"),
        (is_("n", "=", 21), "e"),
        (is_("n", "!=", 20), "abe"),
        (is_("n", "<", 10), "ae"),
        (is_("n", "<=", 10), "abe"),
        (is_("n", ">", 19), "ce"),
        (is_("n", ">=", 19), "bce"),
        (is_("N", ">=", 19), "bce"),
        (In(("n",), (3, 20, 99)), "ace"),
        (In(("n",), ()), ""),
        (In(("n",), tuple(range(12, 200))), "bce"),
        (In(("n",), (3, 20), negated=True), "abe"),
        (IsNull(("n",)), "bde"),
        (IsNull(("n",), negated=True), "abce"),
        (Not(is_("n", "<", 10)), "bce"),
        (Not(IsNull(("n",))), "abce"),
        (Not(Or((is_("n", "<", 10), is_("n", "=", 20)))), "be"),
        (Not(And((is_("n", ">=", 10), is_("n", "<", 20)))), "ace"),
        (Not(Not(is_("n", "=", 5))), "ae"),
        (And((is_("n", ">", 5), is_("n", "<", 12))), "abe"),
        (Or((is_("n", "=", 5), IsNull(("n",)))), "abde"),
        (And(()), "abcde"),
        (is_("n", "=", "five"), "abcde"),
        (is_("n", "=", 5.5), "abcde"),
        (is_("n", "=", True), "abcde"),
        (is_("n", "=", 2**70), "abcde"),
        (is_("missing", "=", 5), "abcde"),
        (Or((is_("n", "=", 5), is_("missing", "=", 5))), "abcde"),
        (And((is_("n", "=", 5), is_("missing", "=", 5))), "ae"),
    ],
)
async def test_files_whose_statistics_cannot_match_are_pruned(
    log: LogBuilder, snapshots: Snapshots, where: Predicate, files: str
) -> None:
    numbers(log)
    assert await remaining(snapshots, log, where) == files


MORNING = datetime(2024, 5, 1, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "low", "high", "inside", "outside"),
    [
        ("byte", 1, 5, 3, 6),
        ("double", -1.5, 2.5, 2, 2.75),
        ("float", 0.1, 0.3, 0.2, 0.5),
        (
            "decimal(38,2)",
            1.5,
            "12345678901234567.89",
            Decimal("12345678901234567.89"),
            Decimal("12345678901234567.90"),
        ),
        ("decimal(10,2)", 1, 5, 3, 6),
        ("string", "apple", "melon", "kiwi", "pear"),
        ("date", "2024-05-01", "2024-05-09", date(2024, 5, 9), date(2024, 5, 10)),
        ("timestamp", "2024-05-01T08:00:00.000Z", "2024-05-01T09:00:00.000Z", MORNING, MORNING - timedelta(seconds=1)),
        (
            "timestamp",
            "2024-05-01T01:00:00.000-07:00",
            "2024-05-01T02:00:00.000-07:00",
            MORNING,
            MORNING + timedelta(hours=2),
        ),
        (
            "timestamp_ntz",
            "2024-05-01T08:00:00.000",
            "2024-05-01T09:00:00.000",
            datetime(2024, 5, 1, 8),
            datetime(2024, 5, 2),
        ),
        ("boolean", True, True, True, False),
    ],
)
async def test_bounds_are_compared_by_their_type_and_not_as_text(
    log: LogBuilder, snapshots: Snapshots, kind: str, low: Any, high: Any, inside: Any, outside: Any
) -> None:
    log.commit(PROTOCOL, metadata({"v": kind}), add("a", stats=statistics(v=(low, high, 0))))
    assert await remaining(snapshots, log, is_("v", "=", inside)) == "a"
    assert await remaining(snapshots, log, is_("v", "=", outside)) == ""


async def test_a_timestamp_may_be_above_its_upper_bound_in_milliseconds(log: LogBuilder, snapshots: Snapshots) -> None:
    bounds = ("2024-05-01T08:00:00.000Z", "2024-05-01T08:00:00.000Z", 0)
    log.commit(PROTOCOL, metadata({"t": "timestamp"}), add("a", stats=statistics(t=bounds)))
    assert await remaining(snapshots, log, is_("t", ">", MORNING + timedelta(microseconds=998))) == "a"
    assert await remaining(snapshots, log, is_("t", ">", MORNING + timedelta(microseconds=999))) == ""
    assert await remaining(snapshots, log, is_("t", "!=", MORNING)) == "a"


@pytest.mark.parametrize(
    ("kind", "bound", "value"),
    [
        ("decimal(18,4)", "12345678901234.568", "12345678901234.5678"),
        ("decimal(18,4)", "12345678901234.568", "12345678901234.5682"),
        ("decimal(38,10)", "1.2345678901234567e+27", "1234567890123456789012345678.0123456789"),
        ("decimal(38,10)", "-1.2345678901234567e+27", "-1234567890123456789012345678.0123456789"),
        ("decimal(38,0)", "9223372036854775807", "1000000000000000000000000001"),
        ("decimal(18,4)", "123456789012345678901", "1.0000"),
        ("decimal(38,0)", "-9223372036854775808", "-1000000000000000000000000001"),
    ],
)
async def test_a_file_may_have_a_decimal_that_its_writer_rounded_in_the_bounds(
    log: LogBuilder, snapshots: Snapshots, kind: str, bound: str, value: str
) -> None:
    """deltalake writes the bounds of decimals as doubles, or as the largest integer."""
    texts = f'{{"numRecords":1,"minValues":{{"d":{bound}}},"maxValues":{{"d":{bound}}},"nullCount":{{"d":0}}}}'
    log.commit(PROTOCOL, metadata({"d": kind}), add("a", stats=texts))
    assert await remaining(snapshots, log, is_("d", "=", Decimal(value))) == "a"


async def test_exact_bounds_of_decimals_stay(log: LogBuilder, snapshots: Snapshots) -> None:
    texts = (
        '{"numRecords":2,"minValues":{"d":12345678901234.5678,"e":9.99},'
        '"maxValues":{"d":12345678901234567.891,"e":9.99},"nullCount":{"d":0,"e":0}}'
    )
    log.commit(PROTOCOL, metadata({"d": "decimal(21,4)", "e": "decimal(18,2)"}), add("a", stats=texts))
    for column, value, expected in (
        ("d", "12345678901234.5677", ""),
        ("d", "12345678901234.5678", "a"),
        ("d", "12345678901234567.8911", ""),
        ("e", "9.98", ""),
        ("e", "9.99", "a"),
    ):
        assert await remaining(snapshots, log, is_(column, "=", Decimal(value))) == expected, (column, value)


async def test_a_bound_of_a_widened_float_may_be_that_of_a_float_or_of_a_double(
    snapshots: Snapshots, log: LogBuilder
) -> None:
    """Files from before the change have floats, whose exact values differ from the decimal text of their bounds."""
    changes = [{"fromType": "float", "toType": "double", "tableVersion": 1}]
    widened = {"name": "f", "type": "double", "nullable": True, "metadata": {"delta.typeChanges": changes}}
    described = metadata()
    described["metaData"]["schemaString"] = json.dumps({"type": "struct", "fields": [widened]})
    log.commit(PROTOCOL, described, add("a", stats=statistics(f=(0.1, 0.3, 0))))
    lowest, highest = 0.10000000149011612, 0.30000001192092896  # the floats nearest to 0.1 and 0.3
    for value in (0.1, lowest, 0.2, 0.3, highest):
        assert await remaining(snapshots, log, is_("f", "=", value)) == "a"
    assert await remaining(snapshots, log, is_("f", ">", 0.3)) == "a"
    for value in (0.0999, 0.3001):
        assert await remaining(snapshots, log, is_("f", "=", value)) == ""


async def test_a_bound_of_a_float_is_compared_as_a_float_and_not_as_its_decimal_text(
    log: LogBuilder, snapshots: Snapshots
) -> None:
    log.commit(PROTOCOL, metadata({"f": "float"}), add("a", stats=statistics(f=(0.1, 0.1, 0))))
    assert await remaining(snapshots, log, is_("f", "<=", 0.1)) == ""  # the float nearest to 0.1 is above it


async def test_a_file_with_a_number_as_its_maximum_may_still_contain_nan(log: LogBuilder, snapshots: Snapshots) -> None:
    schema = metadata({"v": "double", "p": "double"}, partitions=["p"])
    log.commit(PROTOCOL, schema, add("a", stats=statistics(v=(1, 3, 0)), partitionValues={"p": "5.0"}))
    for op in (">", ">=", "!="):
        assert await remaining(snapshots, log, is_("v", op, 100)) == "a"
    assert await remaining(snapshots, log, Not(is_("v", "<", 100))) == "a"
    assert await remaining(snapshots, log, In(("v",), (1.0, 2.0), negated=True)) == "a"
    for op in ("=", "<"):
        assert await remaining(snapshots, log, is_("v", op, 0)) == ""
    assert await remaining(snapshots, log, is_("p", ">", 5)) == ""


async def test_invalid_statistics_prune_nothing(log: LogBuilder, snapshots: Snapshots) -> None:
    texts = [
        statistics(v=("NaN", "NaN", 0)),
        statistics(v=({"x": 1}, [2], -1)),
        "{",
        "",
        "[]",
        '{"minValues":5,"maxValues":null,"nullCount":"x"}',
        '{"minValues":{"v":1e400},"numRecords":1e400}',
        "{}{}",
    ]
    adds = [add("abcdefghi"[at], stats=text) for at, text in enumerate(texts)]
    log.commit(PROTOCOL, metadata({"v": "double"}), *adds, add("x", stats=statistics(v=(1, 2, 0))))
    assert await remaining(snapshots, log, is_("v", "<", 0)) == "abcdefgh"
    assert await remaining(snapshots, log, is_("v", "=", 1)) == "abcdefghx"


async def test_a_field_of_a_struct_has_its_own_bounds(log: LogBuilder, snapshots: Snapshots) -> None:
    inner = {"type": "struct", "fields": [{"name": "n", "type": "long", "nullable": True, "metadata": {}}]}
    stats = {"numRecords": 1, "minValues": {"s": {"n": 1}, "n": 50}, "maxValues": {"s": {"n": 2}, "n": 60}}
    log.commit(PROTOCOL, metadata({"s": inner, "n": "long"}), add("a", stats=json.dumps(stats)), add("b", stats="{}"))
    assert await remaining(snapshots, log, is_("s.n", "=", 1)) == "ab"
    assert await remaining(snapshots, log, is_("s.n", "=", 55)) == "b"
    assert await remaining(snapshots, log, And((is_("n", "=", 55), is_("s.n", "=", 2)))) == "ab"
    assert await remaining(snapshots, log, is_("s", "=", 1)) == "ab"


async def test_a_mapped_column_is_looked_up_by_its_physical_name(log: LogBuilder, snapshots: Snapshots) -> None:
    action = metadata(
        {"n": "long", "p": "string"}, partitions=["p"], configuration={"delta.columnMapping.mode": "name"}
    )
    schema = json.loads(action["metaData"]["schemaString"])
    for field in schema["fields"]:
        field["metadata"]["delta.columnMapping.physicalName"] = f"col-{field['name']}"
    action["metaData"]["schemaString"] = json.dumps(schema)
    stats = statistics(n=(1, 5, 0)).replace('"n"', '"col-n"')
    log.commit(PROTOCOL, action, add("a", stats=stats, partitionValues={"col-p": "x"}))
    assert await remaining(snapshots, log, And((is_("n", "=", 3), is_("p", "=", "x")))) == "a"
    assert await remaining(snapshots, log, is_("n", "=", 9)) == ""
    assert await remaining(snapshots, log, is_("p", "=", "y")) == ""


@pytest.mark.parametrize(
    ("kind", "text", "same", "other"),
    [
        ("integer", "7", 7, 8),
        ("string", "x y", "x y", "x"),
        ("date", "2024-05-01", date(2024, 5, 1), date(2024, 5, 2)),
        ("boolean", "true", True, False),
        ("double", "1.5E3", 1500, 1501),
        ("decimal(5,2)", "1.50", Decimal("1.5"), Decimal("1.51")),
        ("timestamp", "2024-05-01T08:00:00.000000Z", MORNING, MORNING + timedelta(microseconds=1)),
        ("timestamp", "2024-05-01 08:00:00", MORNING, MORNING + timedelta(hours=13)),
        ("timestamp_ntz", "2024-05-01 08:00:00", datetime(2024, 5, 1, 8), datetime(2024, 5, 1, 9)),
    ],
)
async def test_partition_values_are_compared_by_their_type(
    log: LogBuilder, snapshots: Snapshots, kind: str, text: str, same: Any, other: Any
) -> None:
    log.commit(
        PROTOCOL,
        metadata({"p": kind}, partitions=["P"]),
        add("a", partitionValues={"p": text}),
        add("b", partitionValues={"p": None}),
        add("c", partitionValues={"p": ""}),
    )
    assert await remaining(snapshots, log, is_("p", "=", same)) == "a"
    assert await remaining(snapshots, log, is_("p", "=", other)) == ""
    assert await remaining(snapshots, log, is_("p", "!=", other)) == "a"
    assert await remaining(snapshots, log, IsNull(("p",))) == "bc"
    assert await remaining(snapshots, log, IsNull(("p",), negated=True)) == "a"


async def test_an_unreadable_partition_value_prunes_nothing(log: LogBuilder, snapshots: Snapshots) -> None:
    log.commit(PROTOCOL, metadata({"p": "integer"}, partitions=["p"]), add("a", partitionValues={"p": "seven"}))
    assert await remaining(snapshots, log, is_("p", "=", 7)) == "a"
    assert await remaining(snapshots, log, IsNull(("p",))) == ""


async def test_a_partition_value_without_a_time_zone_may_be_in_any_zone(log: LogBuilder, snapshots: Snapshots) -> None:
    log.commit(
        PROTOCOL,
        metadata({"p": "timestamp"}, partitions=["p"]),
        add("a", partitionValues={"p": "2024-05-01 08:00:00"}),
    )
    for hours, expected in ((-15, ""), (-14, "a"), (0, "a"), (12, "a"), (13, "")):
        assert await remaining(snapshots, log, is_("p", "=", MORNING + timedelta(hours=hours))) == expected


async def test_files_of_later_versions_are_pruned_too(log: LogBuilder, snapshots: Snapshots) -> None:
    numbers(log)
    assert await remaining(snapshots, log, is_("n", "=", 5)) == "ae"
    log.commit(remove("a"), add("f", stats=statistics(n=(4, 6, 0))), add("g", stats=statistics(n=(7, 8, 0))))
    assert await remaining(snapshots, log, is_("n", "=", 5)) == "ef"


async def test_wide_bounds_of_a_file_with_a_deletion_vector_prune_values_outside_them(
    log: LogBuilder, snapshots: Snapshots
) -> None:
    wide = json.loads(statistics(10, n=(0, 9, 4))) | {"tightBounds": False}
    log.commit(
        {"protocol": FEATURES}, metadata({"n": "long"}), add("a", stats=json.dumps(wide), deletionVector=vector("v"))
    )
    assert await remaining(snapshots, log, is_("n", "=", 10)) == ""
    assert await remaining(snapshots, log, is_("n", "=", 9)) == "a"
    assert await remaining(snapshots, log, IsNull(("n",))) == "a"
