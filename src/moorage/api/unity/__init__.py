"""The Unity Catalog API."""

from moorage.api.unity import (
    capabilities,
    catalogs,
    compaction,
    credentials,
    delta_commits,
    functions,
    metastore,
    model_versions,
    models,
    schemas,
    staging,
    tables,
    volumes,
)
from moorage.api.unity.api import unity

__all__ = [
    "capabilities",
    "catalogs",
    "compaction",
    "credentials",
    "delta_commits",
    "functions",
    "metastore",
    "model_versions",
    "models",
    "schemas",
    "staging",
    "tables",
    "unity",
    "volumes",
]
