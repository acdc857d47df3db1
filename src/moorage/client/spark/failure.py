"""Why there is no Spark."""

from __future__ import annotations


class SparkUnavailable(Exception):
    """Spark cannot be started here. The message says what is missing and how to install it."""
