"""The Unity Catalog API."""

from moorage.api.unity import (
    capabilities,
    catalogs,
    credentials,
    functions,
    metastore,
    model_versions,
    models,
    schemas,
    tables,
    volumes,
)
from moorage.api.unity.api import unity

__all__ = [
    "capabilities",
    "catalogs",
    "credentials",
    "functions",
    "metastore",
    "model_versions",
    "models",
    "schemas",
    "tables",
    "unity",
    "volumes",
]
