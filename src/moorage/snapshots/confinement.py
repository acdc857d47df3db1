"""Every path of a log lies inside its table, or the log is not read.

Readers of a snapshot sign, serve and project what it names, with the server's rights. So the paths of
checkpoints and commits are checked where they are read, whoever wrote them.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from moorage.core.errors import InvalidInput
from moorage.formats.delta.actions import VECTOR_ID_LENGTH
from moorage.formats.delta.file_actions import DeletionVector
from moorage.formats.delta.log_commits import Commit
from moorage.formats.delta.paths import Inside, inside_of

DOUBTFUL = "|".join(
    (
        r"[\\\x00-\x1f\x7f]",
        r"^$|^/|//|/$|(?:^|/)\.",
        r"^[_%]",  # it could be the log folder
        r"^[A-Za-z][A-Za-z0-9+.%-]*(?::|%3[aA])",  # a scheme
        r"%(?:2[eEfF]|5[cC]|[01][0-9a-fA-F]|7[fF])",  # any of the above, encoded
    )
)
"""What makes a path worth a closer look. A hundred thousand are not worth it, and need none."""


def require_files_inside(files: pa.Table, location: str) -> None:
    inside = inside_of(location)
    doubtful = files["path"].filter(pc.match_substring_regex(files["path"], DOUBTFUL))
    _require(doubtful.to_pylist(), inside, location)
    vectors = files["deletionVector"].drop_null()
    _require(_vector_paths(vectors), inside, location)


def require_commit_inside(commit: Commit, location: str) -> None:
    inside = inside_of(location)
    _require((file.path for file in (*commit.files, *commit.cdc)), inside, location)
    vectors = (file.deletion_vector for file in commit.files if file.deletion_vector is not None)
    _require((path for vector in vectors if (path := vector_path(vector))), inside, location)


def vector_path(vector: DeletionVector) -> str | None:
    """A path in the folder that a deletion vector names; None where it cannot name any but the table's own."""
    return _vector_path(vector.storage_type, vector.path_or_inline_dv)


def _vector_paths(vectors: pa.ChunkedArray) -> Iterable[str]:
    kind, place = pc.struct_field(vectors, "storageType"), pc.struct_field(vectors, "pathOrInlineDv")
    naming = pc.and_(
        pc.not_equal(kind, "i"), pc.or_(pc.equal(kind, "p"), pc.greater(pc.utf8_length(place), VECTOR_ID_LENGTH))
    )
    pairs = zip(kind.filter(naming).to_pylist(), place.filter(naming).to_pylist(), strict=True)
    return [path for pair in pairs if (path := _vector_path(*pair))]


def _vector_path(kind: str, place: str) -> str | None:
    if kind == "p":
        return place
    folder = place[:-VECTOR_ID_LENGTH]
    return f"{folder}/vector" if kind == "u" and folder else None


def _require(paths: Iterable[str], inside: Inside, location: str) -> None:
    for path in paths:
        if not inside(path):
            raise InvalidInput(
                f"the log names {path!r}, which is not inside of the table at {location!r}; "
                "tables that borrow the files of others are not read here",
                field="path",
            )
