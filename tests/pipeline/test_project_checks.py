"""What the check of a pipeline's project refuses, with the file and the line of the mistake."""

from __future__ import annotations

import pytest

from moorage.core.entries import JobState
from moorage.pipeline.sdp.project import ProjectFailed
from tests.pipeline.sites import Site

pytestmark = pytest.mark.xdist_group("spark-pipeline")


@pytest.mark.parametrize(
    "operator",
    [
        *('withColumn("x", F.lit(1))', 'drop("amount")', 'dropDuplicates(["id"])'),
        'groupBy("id").pivot("amount").count()',
    ],
)
def test_an_operator_that_loses_its_source_is_refused_by_file_and_line(site: Site, operator: str) -> None:
    site.python(f"""
        from pyspark.sql import functions as F

        @dp.materialized_view
        def silver():
            return spark.read.table("bronze").{operator}
    """)
    with pytest.raises(
        ProjectFailed, match=r"steps/flows\.py:\d+: the flow '.*silver' uses .* on the table 'bronze'"
    ) as e:
        site.check()
    assert e.value.refused


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('spark.range(3).writeTo("lake.{schema}.stray").create()', "sends the command write_operation_v2 to Spark"),
        (
            'spark.catalog.createTable("lake.{schema}.stray", schema=spark.range(1).schema)',
            "calls catalog.create_table",
        ),
        ('open("{in}/stray.json", "w")', "writes the file '.*stray.json'"),
    ],
)
def test_a_project_that_writes_while_it_is_imported_is_refused_by_file_and_line(
    site: Site, line: str, what: str
) -> None:
    site.python(f"""
        @dp.materialized_view
        def one():
            return spark.range(1)

        {line.replace("{schema}", site.schema)}
    """)
    with pytest.raises(ProjectFailed, match=rf"steps/flows\.py:9: the project {what} while it is imported") as e:
        site.check()
    assert e.value.refused
    assert list(site.client.namespaces.tables("lake", [site.schema])) == []
    assert list((site.folder / "in").iterdir()) == []


def test_a_flow_that_cannot_be_resolved_is_named_with_its_line_and_the_reason(site: Site) -> None:
    site.python("""
        @dp.materialized_view
        def silver():
            return spark.range(1).selectExpr("missing")
    """)
    with pytest.raises(
        ProjectFailed, match=rf"^steps/flows\.py:\d+: the flow 'lake.{site.schema}.silver' failed: \[UNRESOLVED_COLUMN"
    ):
        site.check()


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ("def silver(:\n    pass", r"4: SyntaxError: "),
        ("@dp.materialized_view\ndef silver():\n    return sparkk.range(1)", r"6: NameError: name 'sparkk'"),
        ("@dp.materialized_view\ndef silver():\n    spark.range(1)", r"[45]: AttributeError: 'NoneType'"),
    ],
    ids=["syntax", "name", "none"],
)
def test_a_mistake_in_the_code_is_named_with_its_line(site: Site, lines: str, error: str) -> None:
    site.python(lines)
    with pytest.raises(ProjectFailed, match=rf"^steps/flows\.py:{error}"):
        site.check()


def test_a_pivot_with_values_keeps_its_source(site: Site) -> None:
    site.python("""
        @dp.materialized_view
        def bronze():
            return spark.range(4).selectExpr("id", "id % 2 AS kind")

        @dp.materialized_view
        def counts():
            return spark.read.table("bronze").groupBy().pivot("kind", [0, 1]).count()
    """)
    assert site.check().flows[1].reads == (f"lake.{site.schema}.bronze",)


def test_a_storage_in_which_spark_does_not_find_its_checkpoints_is_refused(site: Site) -> None:
    site.python("""
        @dp.materialized_view
        def one():
            return spark.range(1)
    """)
    spec = site.files["spark-pipeline.yml"]
    site.files["spark-pipeline.yml"] = spec.replace("/state", "/my%20state")
    with pytest.raises(
        ProjectFailed, match=r"spark-pipeline\.yml: Spark encodes the character '%' in the storage"
    ) as e:
        site.check()
    assert e.value.refused


def test_a_view_in_sql_must_be_written_on_a_branch(site: Site) -> None:
    site.files["steps/a.sql"] = "-- totals\nCREATE MATERIALIZED VIEW totals AS SELECT 1 AS one;\n"
    with pytest.raises(ProjectFailed, match=r"steps/a\.sql:2: the view totals needs TBLPROPERTIES"):
        site.check()
    site.files["steps/a.sql"] = (
        "CREATE MATERIALIZED VIEW totals TBLPROPERTIES ('write.wap.enabled' = 'true') AS SELECT 1 AS one;\n"
    )
    site.check()
    assert site.run().state is JobState.SUCCEEDED
    assert site.rows("totals") == [{"one": 1}]
