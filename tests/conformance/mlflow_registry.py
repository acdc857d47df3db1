"""MLflow's model registry on a Unity catalog: register, add a version, search, delete.

MLflow runs in its own environment, because its dependencies do not fit into that of the tests. This program therefore
imports only MLflow and the standard library: `python mlflow_registry.py http://127.0.0.1:8080 lake.sea.churn folder`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mlflow.store._unity_catalog.registry.uc_oss_rest_store import UnityCatalogOssStore


def main(url: str, name: str, folder: Path) -> None:
    store = UnityCatalogOssStore(f"uc:{url}")
    (folder / "MLmodel").write_text("flavors: {}\nsignature: {inputs: '[]', outputs: '[]'}\n")
    assert store.create_registered_model(name, description="who leaves").name == name
    version = store.create_model_version(name, source=folder.as_uri(), run_id="r", local_model_path=str(folder))
    assert (version.version, version.status) == (1, "READY")
    assert name in [model.name for model in store.search_registered_models()]
    assert len(store.search_registered_models(max_results=1)) == 1
    assert [each.version for each in store.search_model_versions(f"name = '{name}'")] == [1]
    stored = Path(store.get_model_version_download_uri(name, 1).removeprefix("file://"))
    assert (stored / "MLmodel").exists()
    store.update_registered_model(name, description="who leaves, and when")
    store.delete_model_version(name, 1)
    store.delete_registered_model(name)
    assert name not in [model.name for model in store.search_registered_models()]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
