"""Refusal of logs that name files outside their table.

The server signs, serves and projects the files of a snapshot with its own permissions. So all paths in checkpoints
and commits are checked when they are read, no matter which writer produced them.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from moorage.core.errors import InvalidInput
from moorage.formats.delta.actions import VECTOR_ID_LENGTH
from moorage.formats.delta.file_actions import DeletionVector
from moorage.formats.delta.log_commits import Commit
from moorage.formats.delta.paths import Inside, path_check_for

NEEDS_EXACT_CHECK = "|".join(
    (
        r"[\\\x00-\x1f\x7f]",
        r"^$|^/|//|/$|(?:^|/)\.",
        r"^[_%]",  # possibly the log folder
        r"^[A-Za-z][A-Za-z0-9+.%-]*(?::|%3[aA])",  # a scheme
        r"%(?:2[eEfF]|5[cC]|[01][0-9a-fA-F]|7[fF])",  # any of the above, encoded
    )
)
"""Paths that match need the exact check. It is too slow for a hundred thousand paths, and most do not match."""


def require_files_inside(files: pa.Table, location: str) -> None:
    inside = path_check_for(location)
    doubtful = files["path"].filter(pc.match_substring_regex(files["path"], NEEDS_EXACT_CHECK))
    _require(doubtful.to_pylist(), inside, location)
    vectors = files["deletionVector"].drop_null()
    _require(_vector_paths(vectors), inside, location)


def require_commit_inside(commit: Commit, location: str) -> None:
    inside = path_check_for(location)
    _require((file.path for file in (*commit.files, *commit.cdc)), inside, location)
    vectors = (file.deletion_vector for file in commit.files if file.deletion_vector is not None)
    _require((path for vector in vectors if (path := vector_path(vector))), inside, location)


def vector_path(vector: DeletionVector) -> str | None:
    """Return a path in the folder of a deletion vector, or None if it is inline or in the table's own folder."""
    return _vector_path(vector.storage_type, vector.path_or_inline_dv)


def _vector_paths(vectors: pa.ChunkedArray) -> Iterable[str]:
    kind, path_or_id = pc.struct_field(vectors, "storageType"), pc.struct_field(vectors, "pathOrInlineDv")
    has_path = pc.and_(
        pc.not_equal(kind, "i"), pc.or_(pc.equal(kind, "p"), pc.greater(pc.utf8_length(path_or_id), VECTOR_ID_LENGTH))
    )
    pairs = zip(kind.filter(has_path).to_pylist(), path_or_id.filter(has_path).to_pylist(), strict=True)
    return [path for pair in pairs if (path := _vector_path(*pair))]


def _vector_path(kind: str, path_or_id: str) -> str | None:
    if kind == "p":
        return path_or_id
    folder = path_or_id[:-VECTOR_ID_LENGTH]
    return f"{folder}/vector" if kind == "u" and folder else None


def _require(paths: Iterable[str], inside: Inside, location: str) -> None:
    for path in paths:
        if not inside(path):
            raise InvalidInput(
                f"the log names {path!r}, which is outside the table at {location!r}; "
                "tables that refer to files of other tables cannot be read",
                field="path",
            )
