"""The formats of this catalog. Only this module names them all; a new format is added here."""

from __future__ import annotations

from typing import Final

from moorage.usecases.catalog.operations import OPERATIONS
from moorage.usecases.delta.format import DeltaFormat
from moorage.usecases.formats import Formats
from moorage.usecases.iceberg.format import IcebergFormat
from moorage.usecases.lance.format import LanceFormat
from moorage.usecases.uniform.convert import DeltaToIceberg

FORMATS: Final = Formats((DeltaFormat(DeltaToIceberg()), IcebergFormat(), LanceFormat()), OPERATIONS)
