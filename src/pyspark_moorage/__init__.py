"""Where Spark looks for `format("moorage")`: a package named `pyspark_` + the format, with a class `DefaultSource`."""

from moorage.client.data_source import MoorageSource as DefaultSource

__all__ = ["DefaultSource"]
