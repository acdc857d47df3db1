"""Keeps `cleanup_old_versions` away from datasets whose newest versions are not in the table's folder yet."""

from __future__ import annotations

from functools import wraps
from typing import Any, Final

from lance import LanceDataset
from lance_namespace import UnsupportedOperationError

_original: Final = LanceDataset.cleanup_old_versions
_refused: set[type] = set()


def refuse_cleanup_in(namespace: type) -> None:
    """Refuse to clean up datasets that were opened through a namespace of this type.

    pylance finds the versions to keep by listing the folder. The versions of a transaction are not there before its
    commit, so pylance would delete the newest version of the lake as an old one, with files that the transaction
    still uses. It calls no method of the namespace that could refuse this, so its own method is wrapped.
    """
    if not _refused:
        LanceDataset.cleanup_old_versions = _cleanup_old_versions  # type: ignore[method-assign]
    _refused.add(namespace)


@wraps(_original)
def _cleanup_old_versions(self: LanceDataset, *args: Any, **kwargs: Any) -> Any:
    if isinstance(vars(self).get("_namespace_client"), tuple(_refused)):
        raise UnsupportedOperationError(
            "cleanup_old_versions is not possible in a transaction: it would delete the newest version of the lake; "
            "commit the transaction first, and open the table through the lake"
        )
    return _original(self, *args, **kwargs)
