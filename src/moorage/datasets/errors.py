"""Translation of pylance's errors into Moorage's.

Most of pylance's errors differ only in their text. Requests are validated before they reach pylance wherever that
is possible, because the field is known there; this module handles the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from moorage.core.errors import (
    Damaged,
    InvalidInput,
    MoorageError,
    NameTaken,
    OutcomeUnknown,
    RequirementFailed,
    SecurableNotFound,
    Unavailable,
    VersionTaken,
)

if TYPE_CHECKING:
    from moorage.datasets.job_table import Namespace

_LONGEST_MESSAGE = 600
_MOST_SEARCHED = 10_000
"""Messages repeat the client's input, which may be long, so only both ends of a message are searched for patterns."""
# The source line and the crate of pylance that raised the error.
_SOURCE_LINE = re.compile(r",?\s*(?:location: )?\S*\.rs:\d+:\d+")
_ERROR_PREFIX = re.compile(r"^(?:(?:Invalid user input|LanceError\(\w+\)|\w+ error): )+")

_STORE_UNREACHABLE = re.compile(r"Generic S3 error")
_RESULT_UNKNOWN = re.compile(r"Commit result for version \d+ is unknown")

_TRANSLATIONS: tuple[tuple[re.Pattern[str], Callable[[str], MoorageError]], ...] = (
    # Faults of the server come first: pylance may wrap them in a message that blames the client.
    (
        re.compile(r"No space left on device|Disk quota exceeded"),
        lambda _: Unavailable("the disk of the table is full; nothing was written; free some space and retry"),
    ),
    (
        re.compile(
            r"Not found: \S+/(?:data|_versions|_indices|_deletions|_transactions)/|Dataset at path \S+ was not found"
            r"|Invalid range \S+ for object of size|does not have sufficient data"
        ),
        lambda text: Damaged(f"files of the table are missing or damaged: {text}"),
    ),
    (_RESULT_UNKNOWN, OutcomeUnknown),
    (re.compile(r"commit conflict|Incompatible transaction|was preempted by|Too many concurrent"), VersionTaken),
    (
        re.compile(r"Dataset already exists"),
        lambda _: RequirementFailed(
            "the table has no version, but its folder contains manifests that are not in the catalog"
        ),
    ),
    (re.compile(r"[Ii]ndex name '.*' already exists"), lambda text: NameTaken(text, kind="index")),
    (re.compile(r"index not found|Index \".*\" not found"), lambda text: SecurableNotFound(text, kind="index")),
    (
        re.compile(
            r"No field named|not found in schema|is not in the dataset|Field '.*' not found"
            r"|(?:[Cc]olumn|field path) .* does not exist|Field \S* ?not found"
        ),
        lambda text: SecurableNotFound(text, kind="column"),
    ),
    (
        re.compile(r"different schema|LanceError\(Schema\)|Duplicate field name"),
        lambda text: InvalidInput(text, field="body", kind="schema"),
    ),
    (
        re.compile(
            r"Invalid (?:user input|argument)|Cast error|Not supported|Ref is invalid|\(Arrow\)|Execution error"
        ),
        InvalidInput,
    ),
)


def to_moorage_error(error: BaseException, namespace: Namespace) -> MoorageError | None:
    """Return the error for the client. None means an unknown fault, which is neither the client's nor a known one."""
    if namespace.refusal is not None:
        return namespace.refusal
    text = str(error)
    if len(text) > _MOST_SEARCHED:
        text = f"{text[: _MOST_SEARCHED // 2]}…{text[-_MOST_SEARCHED // 2 :]}"
    if namespace.failure is not None and ("Python error in" in text or "Namespace error" in text):
        return namespace.failure
    if _STORE_UNREACHABLE.search(text):
        return _unreachable_error(namespace)
    if _RESULT_UNKNOWN.search(text) and namespace.conflict is not None and not namespace.has_committed:
        # Another writer has committed that version. pylance only could not read it from the catalog afterwards.
        return namespace.failure if isinstance(namespace.failure, Unavailable) else namespace.conflict
    for pattern, refusal in _TRANSLATIONS:
        if pattern.search(text):
            return refusal(plain_message(text))
    if isinstance(error, ValueError | TypeError | KeyError | NotImplementedError):
        return InvalidInput(plain_message(text))
    return None


def _unreachable_error(namespace: Namespace) -> MoorageError:
    if namespace.has_committed:
        return OutcomeUnknown(
            "the object store became unreachable after the commit; check the table's newest version before you retry"
        )
    return Unavailable("the object store of the table cannot be reached; nothing was changed; retry later")


def plain_message(text: str) -> str:
    """Return the first line of a message, without pylance's source lines and error prefixes."""
    text = text[: 4 * _LONGEST_MESSAGE]
    lines = _ERROR_PREFIX.sub("", _SOURCE_LINE.sub("", text)).strip().strip("'\"").splitlines() or [
        "the request was refused"
    ]
    line = lines[0].partition(": Schema {")[0]
    return line if len(line) <= _LONGEST_MESSAGE else f"{line[:_LONGEST_MESSAGE]}…"
