"""Error messages in the words of Unity's clients, which say schema and force where the catalog says otherwise."""

from __future__ import annotations

_WORDS = (("namespace '", "schema '"), ("or drop it with cascade", "or delete it with force=true"))


def in_unity_words(message: str) -> str:
    """The message with the kind of an object named as Unity names it."""
    for ours, theirs in _WORDS:
        message = message.replace(ours, theirs)
    return message
