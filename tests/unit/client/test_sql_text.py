"""Tables in SQL texts: which are named, and what a statement becomes when they are replaced."""

from __future__ import annotations

import pytest

from moorage.client.delta.sql_text import parse, statements, with_table


def replaced(text: str) -> str:
    return parse(text).replaced(lambda named: "T" if named.is_target else "V")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("UPDATE lake.sea.boats SET x = 1", "UPDATE T AS `boats` SET x = 1"),
        ("update lake.sea.boats b set x = 1", "update T b set x = 1"),
        ("DELETE FROM lake.sea.boats WHERE lake.sea.boats.id = 1", "DELETE FROM T AS `boats` WHERE `boats`.id = 1"),
        ("INSERT INTO lake.sea.boats SELECT * FROM lake.sea.new", "INSERT INTO T SELECT * FROM V AS `new`"),
        ("INSERT INTO TABLE `lake`.`sea`.`the boats` VALUES (1)", "INSERT INTO TABLE T VALUES (1)"),
        ("INSERT OVERWRITE lake.sea.boats BY NAME SELECT 1 AS id", "INSERT OVERWRITE T BY NAME SELECT 1 AS id"),
        (
            "MERGE INTO lake.sea.boats t USING lake.sea.new AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
            "MERGE INTO T t USING V AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
        ),
        (
            "MERGE WITH SCHEMA EVOLUTION INTO lake.sea.boats USING s ON boats.id = s.id WHEN MATCHED THEN DELETE",
            "MERGE WITH SCHEMA EVOLUTION INTO T AS `boats` USING s ON boats.id = s.id WHEN MATCHED THEN DELETE",
        ),
        (
            "DELETE FROM lake.sea.boats -- not lake.sea.ports\nWHERE name = 'lake.sea.ports' /* lake.sea.x */",
            "DELETE FROM T AS `boats` -- not lake.sea.ports\nWHERE name = 'lake.sea.ports' /* lake.sea.x */",
        ),
        ("SELECT * FROM lake.sea.boats VERSION AS OF 3 b", "SELECT * FROM V b"),
        ("SELECT * FROM lake.sea.boats TIMESTAMP AS OF '2026-11-16'", "SELECT * FROM V AS `boats`"),
        ("SELECT a.b FROM sea.boats", "SELECT a.b FROM sea.boats"),
        ("SELECT (SELECT max(id) FROM lake.sea.boats)", "SELECT (SELECT max(id) FROM V AS `boats`)"),
        (
            "UPDATE lake.sea.boats SET x = 'it''s; \\' lake.sea.y'",
            "UPDATE T AS `boats` SET x = 'it''s; \\' lake.sea.y'",
        ),
    ],
)
def test_the_names_of_tables_are_replaced_and_nothing_else(text: str, expected: str) -> None:
    assert replaced(text) == expected


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("SELECT * FROM lake.sea.boats", True),
        ("(SELECT * FROM lake.sea.boats)", True),
        ("CREATE TABLE here AS SELECT * FROM lake.sea.boats", True),
        ("REPLACE TABLE here AS SELECT * FROM lake.sea.boats", True),
        ("CACHE TABLE here AS SELECT * FROM lake.sea.boats", True),
        ("SET VAR newest = (SELECT max(id) FROM lake.sea.boats)", True),
        ("DESCRIBE QUERY SELECT * FROM lake.sea.boats", True),
        ("SHOW COLUMNS FROM lake.sea.boats", False),
        ("CREATE OR REPLACE TABLE lake.sea.boats AS SELECT 1", False),
        ("DESCRIBE TABLE EXTENDED lake.sea.boats", True),
        ("DESCRIBE HISTORY lake.sea.boats", False),
        ("DROP TABLE lake.sea.boats", False),
        ("ALTER TABLE lake.sea.boats ADD COLUMN x INT", False),
        ("OPTIMIZE lake.sea.boats", False),
        ("DELETE FROM lake.sea.boats", False),
    ],
)
def test_it_is_known_whether_a_statement_only_reads_a_table(text: str, *, reads: bool) -> None:
    (named,) = parse(text).tables
    assert named.is_source is reads


def test_a_described_table_gets_no_alias() -> None:
    assert replaced("DESCRIBE lake.sea.boats") == "DESCRIBE V"


def test_a_name_that_is_kept_stays_as_it_is_written() -> None:
    text = "SELECT lake.sea.ice.id FROM lake.sea.ice"
    assert parse(text).replaced(lambda _: None) == text


def test_versions_and_times_are_read() -> None:
    (first, second) = parse("SELECT * FROM a.b.c FOR VERSION AS OF 3 JOIN a.b.d TIMESTAMP AS OF '2026-11-16'").tables
    assert (first.version, second.timestamp) == (3, "2026-11-16")


def test_statements_are_separated_by_semicolons_outside_of_texts() -> None:
    found = statements("USE lake; -- a; b\nDELETE FROM a.b.c WHERE x = ';';\n\n-- the end\n")
    assert [each.verb for each in found] == ["use", "delete"]
    assert [each.target is not None for each in found] == [False, True]


@pytest.mark.parametrize("text", ["SELECT * FROM a.b.c", "CREATE TABLE a.b.c AS SELECT 1", "DELETE a.b.c", "UPDATE t"])
def test_other_statements_change_no_rows(text: str) -> None:
    assert parse(text).target is None


def test_a_string_keeps_the_word_that_stands_for_the_table() -> None:
    kept = "SET a = 'the {table}', `{table}` = \"{table}\" /* {table} */ WHERE id IN"
    text = f"UPDATE {{table}} AS t {kept} (SELECT id FROM {{table}})"
    assert with_table(text, "p.`x`") == f"UPDATE p.`x` AS t {kept} (SELECT id FROM p.`x`)"
