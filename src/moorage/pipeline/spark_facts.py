"""What a job records about the Spark that runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark_facts(session: SparkSession) -> dict[str, Any]:
    """The application id and the address of the UI, for the progress of a job. Spark Connect states neither."""
    try:
        context = session.sparkContext
    except Exception:  # noqa: BLE001 - a Connect session has no context, and names that differently in each release
        return {}
    return {"spark": {"application": context.applicationId, "ui": context.uiWebUrl}}
