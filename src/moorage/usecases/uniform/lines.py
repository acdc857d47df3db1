"""The names under which the ledger records conversions."""

from __future__ import annotations

from typing import Final

FOLDER: Final = "_iceberg/"
"""The folder of a table for the files of its conversions."""
ICEBERG: Final = "iceberg"
"""The ref of a Delta table whose versions are its conversions."""
REFUSED: Final = "refused"
"""The operation of a version that could not be converted."""
CONVERTED: Final = "converted_delta_version"
"""Key in the details of a version: the version that its metadata describes."""
REASON: Final = "reason"
"""Key in the details of a refused version."""
