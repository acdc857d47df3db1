"""What the SQL files of a pipeline define and read."""

from __future__ import annotations

import pytest

from moorage.pipeline.sdp.sql_files import Reads, SqlNotUnderstood, reads_of, statements_of

FILE = """\
-- a comment; with a semicolon
CREATE STREAMING TABLE calls (id LONG COMMENT 'a; b', port STRING) PARTITIONED BY (port);
/* FROM nothing; */
CREATE FLOW from_ports AS INSERT INTO calls BY NAME SELECT id, port FROM STREAM lake.sea.ports;

CREATE TEMPORARY VIEW known AS WITH c AS (SELECT id FROM calls) SELECT * FROM c WHERE 'x from y' <> '';
CREATE OR REFRESH MATERIALIZED VIEW totals TBLPROPERTIES ('write.wap.enabled' = 'true') AS
  SELECT count(*) AS n FROM known k JOIN `ports` p ON k.id = p.id WHERE k.id IN (SELECT id FROM STREAM(seen));
SET x = 1
"""


def test_every_definition_has_its_line_its_target_and_its_tables() -> None:
    found = [(each.kind, each.name, each.target, each.reads.tables, each.line) for each in statements_of(FILE)]
    assert found == [
        ("table", "calls", "calls", (), 2),
        ("flow", "from_ports", "calls", ("lake.sea.ports",), 4),
        ("temporary", "known", "known", ("calls",), 6),
        ("view", "totals", "totals", ("known", "ports", "seen"), 7),
    ]
    table, *_, view = statements_of(FILE)
    assert table.query is None
    assert view.properties["write.wap.enabled"] == "true"


def test_files_and_table_functions_are_no_tables() -> None:
    assert reads_of("SELECT * FROM json.`/srv/in` UNION ALL SELECT * FROM range(10)") == Reads(sources=("/srv/in",))


def test_a_statement_that_cannot_be_parsed_is_named_by_its_line() -> None:
    with pytest.raises(SqlNotUnderstood) as error:
        list(statements_of("CREATE TEMPORARY VIEW a AS SELECT 1;\n\nCREATE TEMPORARY VIEW b AS SELECT FROM WHERE (;"))
    assert error.value.line == 3
