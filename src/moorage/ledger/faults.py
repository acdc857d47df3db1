"""The steps of a store at which a test can kill the process."""

from __future__ import annotations

from moorage.faults import reach

__all__ = ["APPEND", "MIGRATE", "UNIFORM", "reach"]

APPEND = (
    "append.begun",
    "append.checked",
    "append.applied",
    "append.recorded",
    "append.committed",
)
UNIFORM = ("uniform.begun", "uniform.converted", "uniform.recorded")
MIGRATE = ("migrate.begun", "migrate.applied", "migrate.committed")
