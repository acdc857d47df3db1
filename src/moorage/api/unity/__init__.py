"""The Unity Catalog API."""

from moorage.api.unity import (
    activation,
    capabilities,
    catalogs,
    compaction,
    credentials,
    delta_commits,
    functions,
    metastore,
    model_versions,
    models,
    permissions,
    recipients,
    schemas,
    shares,
    staging,
    tables,
    volumes,
)
from moorage.api.unity.api import unity

__all__ = [
    "activation",
    "capabilities",
    "catalogs",
    "compaction",
    "credentials",
    "delta_commits",
    "functions",
    "metastore",
    "model_versions",
    "models",
    "permissions",
    "recipients",
    "schemas",
    "shares",
    "staging",
    "tables",
    "unity",
    "volumes",
]
