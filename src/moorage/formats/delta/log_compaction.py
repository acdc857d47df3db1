"""Log compactions: the commits of several versions in one file, for readers that replay them. Pure.

The protocol's rules of reconciliation decide what is left: the last action on each file, application and domain. A
removed file or domain stays, because a version before the range may have it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec.structs import replace

from moorage.core.errors import InvalidInput
from moorage.formats.delta.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from moorage.formats.delta.file_actions import AddFile, RemoveFile
from moorage.formats.delta.log_commits import Commit
from moorage.formats.delta.replay import key_of
from moorage.formats.delta.shadow import encode, metadata_action

MAX_ACTIONS: Final = 250_000
"""A larger file would take a reader as long as a checkpoint."""


class Compacted:
    """Reconciles commits, one after the other, oldest first."""

    def __init__(self) -> None:
        self._protocol: Protocol | None = None
        self._metadata: Metadata | None = None
        self._transactions: dict[str, SetTransaction] = {}
        self._domains: dict[str, DomainMetadata] = {}
        self._files: dict[str, AddFile | RemoveFile] = {}

    def add(self, commits: Iterable[Commit]) -> None:
        for commit in commits:
            self._protocol = commit.protocol or self._protocol
            self._metadata = commit.metadata or self._metadata
            self._transactions.update((each.app_id, each) for each in commit.transactions)
            self._domains.update((each.domain, each) for each in commit.domains)
            self._files.update((key_of(file), file) for file in commit.files)
        if len(self._files) > MAX_ACTIONS:
            raise InvalidInput(
                f"the commits since the last checkpoint change more than {MAX_ACTIONS:,} files; write a checkpoint",
                field="commits_only",
            )

    def to_bytes(self) -> bytes:
        """The file. It has no commitInfo and no change data: readers find those in the commits."""
        metadata = self._metadata
        actions: list[dict[str, Any]] = [
            *([] if self._protocol is None else [{"protocol": self._protocol}]),
            *([] if metadata is None else [{"metaData": metadata_action(metadata, metadata.configuration)}]),
            *({"txn": each} for each in self._transactions.values()),
            *({"domainMetadata": each} for each in self._domains.values()),
            *({_kind(file): replace(file, data_change=False)} for file in self._files.values()),
        ]
        return b"".join(encode(action) + b"\n" for action in actions)


def _kind(file: AddFile | RemoveFile) -> str:
    return "add" if isinstance(file, AddFile) else "remove"
