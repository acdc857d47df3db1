"""What pylance says when it cannot do something, in our own words.

It tells most mistakes apart only by their text. What can be checked before is checked before, where the
field is known; this is for the rest.
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
    from moorage.datasets.desk import Namespace

_LONGEST = 600
_READ = 10_000
"""A message repeats what it was given, and that may be long: patterns are looked for at both of its ends only."""
# Where in pylance's sources an error was made, and which of its crates made it.
_SOURCE = re.compile(r",?\s*(?:location: )?\S*\.rs:\d+:\d+")
_PREFIX = re.compile(r"^(?:(?:Invalid user input|LanceError\(\w+\)|\w+ error): )+")

_STORE_IS_AWAY = re.compile(r"Generic S3 error")
_RESULT_UNKNOWN = re.compile(r"Commit result for version \d+ is unknown")

_KNOWN: tuple[tuple[re.Pattern[str], Callable[[str], MoorageError]], ...] = (
    # The server's own troubles first: they may be wrapped in words that blame the caller.
    (
        re.compile(r"No space left on device|Disk quota exceeded"),
        lambda _: Unavailable("the disk of the table is full; nothing was written: free some space and send it again"),
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
            "the table has no version, but its folder has manifests that the catalog has no record of"
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


def refusal_of(error: BaseException, namespace: Namespace) -> MoorageError | None:
    """What the caller hears of a failure; None if it is not the caller's fault, nor anybody's we know."""
    if namespace.refusal is not None:
        return namespace.refusal
    text = str(error)
    if len(text) > _READ:
        text = f"{text[: _READ // 2]}…{text[-_READ // 2 :]}"
    if namespace.failure is not None and ("Python error in" in text or "Namespace error" in text):
        return namespace.failure
    if _STORE_IS_AWAY.search(text):
        return _away(namespace)
    if _RESULT_UNKNOWN.search(text) and namespace.lost is not None and not namespace.has_committed:
        # Only who was faster is unknown, because the catalog could not tell. It was not this one.
        return namespace.failure if isinstance(namespace.failure, Unavailable) else namespace.lost
    for pattern, refusal in _KNOWN:
        if pattern.search(text):
            return refusal(in_plain_words(text))
    if isinstance(error, ValueError | TypeError | KeyError | NotImplementedError):
        return InvalidInput(in_plain_words(text))
    return None


def _away(namespace: Namespace) -> MoorageError:
    if namespace.has_committed:
        return OutcomeUnknown(
            "the object store went away after the change was made; look at the table's newest version"
        )
    return Unavailable("the object store of the table cannot be reached; nothing was changed: send it again later")


def in_plain_words(text: str) -> str:
    """The message without pylance's insides."""
    text = text[: 4 * _LONGEST]
    words = _PREFIX.sub("", _SOURCE.sub("", text)).strip().strip("'\"").splitlines() or ["it was refused"]
    line = words[0].partition(": Schema {")[0]
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
