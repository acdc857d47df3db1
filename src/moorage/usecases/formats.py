"""The table of formats: what each format package provides to the rest of the server.

Settling, catalog and upkeep use this table and name no format. `moorage.usecases.registry` fills it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import msgspec

from moorage.core.entries import Publish
from moorage.core.errors import Damaged, Unsupported
from moorage.core.health import TableFacts
from moorage.core.job_options import CheckpointOptions, CompactOptions, ExpireOptions
from moorage.core.jobs import Job
from moorage.core.revisions import Revision
from moorage.core.rewrites import Checkpointed, Expired, OfferResult, Shadow, StatisticsAdded
from moorage.core.securables import Securable
from moorage.ledger.port import Staged, Version
from moorage.usecases.parts import NewFile, Part

if TYPE_CHECKING:
    from moorage.core.callers import Caller
    from moorage.usecases.ports import Errand, Ports
    from moorage.usecases.settling.transact import Operation, Preparer


class Projection(msgspec.Struct, frozen=True, kw_only=True):
    """A table at one version, readable in another format through a metadata file."""

    format: str
    metadata_location: str
    version: int
    latest: int
    """The newest version that was converted or refused."""
    converted_at: int | str
    """When the version was committed: milliseconds, or the text of a client."""
    document: bytes | None = None
    """The response body with the metadata, as the ledger stores it. None: only the file has it."""
    floor: int = 0
    """Older versions are no longer available. Their files may be deleted."""
    is_own: bool = True
    """Whether this server converted the table, as opposed to a client."""
    reason: str | None = None
    """Why later versions are not converted; None if there are none."""

    @property
    def change_tag(self) -> str:
        """Changes whenever the projected metadata does."""
        return f"{'' if self.is_own else 'client.'}{self.version}{f'.{self.floor}' if self.floor else ''}"


class Converter(Protocol):
    """Converts tables of one format, so that clients of another one can read them."""

    async def project(self, ports: Ports, table: Securable) -> Projection:
        """The table at its newest version, converted first if necessary. Unsupported if it cannot be."""
        ...

    async def last_projection(
        self, ports: Ports, table: Securable, *, cached_only: bool = False, with_refused: bool = False
    ) -> Projection | None:
        """The newest version that was converted; None if there is none.

        `cached_only`: as far as this server knows. `with_refused`: also if the only record is a refusal.
        """
        ...

    async def sweep(self, ports: Ports, table: Securable) -> int:
        """Delete files that the newest conversion does not need. Returns the number of deleted files."""
        ...

    async def require_conversion(
        self, ports: Ports, root: str, location: str, version: int, *, data: bytes, table: Securable | None
    ) -> None:
        """Raise InvalidInput if there is a file at this location that does not describe the next version of the table.

        `data` is the commit of that version, and `table` the table before it; None for the first version.
        """
        ...


class TableFormat:
    """What the rest of the server calls on a format. The defaults are those of a format that the catalog only lists."""

    name: ClassVar[str] = ""
    is_compactable: ClassVar[bool] = False
    """Whether its log states which files are in use. Compacting any other format would show rows twice."""
    job_kinds: ClassVar[frozenset[str]] = frozenset()
    """The kinds of jobs that workers can run for its tables."""
    is_rewritten_in_quiet: ClassVar[bool] = False
    """Whether a compaction makes row-changing writers fail, so that one of the autopilot waits until they pause. The
    server checks it when a worker takes the job."""
    deletes_staged: ClassVar[bool] = False
    """Whether the staged file of a version is deleted once the version is published."""
    is_shareable: ClassVar[bool] = False
    """Whether recipients of a share can read its tables."""
    converter: Converter | None = None
    """How its tables are converted for clients of another format."""
    operations: ClassVar[Mapping[type[Operation], Preparer]] = {}
    """The transaction operations that this format prepares."""

    async def revise(
        self, ports: Ports, caller: Caller, chain: tuple[Securable, ...], revision: Revision
    ) -> Part | None:
        """The part that revises a table whose description is in its metadata; None if the record alone describes it."""
        return None

    def job_defaults(self, table: Securable, kind: str) -> dict[str, Any]:
        """The options of a job about the table that the catalog states, and the request may replace."""
        return {}

    def readable_as(self, table: Securable, above: tuple[Securable, ...]) -> str | None:
        """The other format in which clients can read the table; None if there is none. `above` are its ancestors."""
        return None

    async def health(self, ports: Ports, caller: Caller, chain: tuple[Securable, ...]) -> TableFacts | None:
        """What is known about the files of a table at its newest version; None if nothing is."""
        return None

    def stated_version(self, version: Version) -> int | None:
        """The number by which clients of the format know a version; None if they cannot."""
        return version.version

    async def replace_published(self, ports: Ports, table: Securable, version: int, ratified: bytes) -> bool:
        """Replace other bytes under the final name of a ratified version; False if they must stay."""
        return False

    async def is_abandoned(
        self,
        ports: Ports,
        table: Securable,
        staged: Staged,
        publish: Publish,
        data: bytes | None,
        *,
        is_new: bool = False,
    ) -> bool:
        """Whether a version must not be published, because a client deleted it or its branch.

        `is_new`: it was published a moment ago.
        """
        return False

    async def sweep(self, ports: Ports, table: Securable, ref: str, published: int) -> None:
        """Delete leftover files of writers in a line that is published up to this version."""

    async def rebuild_file(self, document: bytes, location: str) -> NewFile:
        """The file of a version that needs no publishing, rebuilt from its document in the ledger."""
        raise Damaged(f"{location}: a {self.name} version has no document in the ledger")

    async def next_shadow(
        self, ports: Ports, errand: Errand, table: Securable, options: CompactOptions
    ) -> Shadow | None:
        """Write a shadow of the next files that a worker should rewrite; None if there are none left."""
        raise Unsupported(f"the files of {self.name or 'this'} tables are not rewritten through shadows")

    async def accept_offer(
        self, ports: Ports, errand: Errand, table: Securable, folder: str, base_version: int
    ) -> OfferResult:
        """Commit what a worker made of a shadow."""
        raise Unsupported(f"the files of {self.name or 'this'} tables are not rewritten through shadows")

    async def announce_expiry(self, ports: Ports, errand: Errand, table: Securable, options: ExpireOptions) -> Expired:
        """Raise the floor, and enqueue the job that deletes the files below it."""
        raise Unsupported(f"versions of {self.name or 'this'} tables are not expired by the server")

    async def delete_expired(self, ports: Ports, table: Securable, job: Job) -> Expired:
        """Delete the files that no version from an announced floor on needs."""
        raise Unsupported(f"versions of {self.name or 'this'} tables are not expired by the server")

    async def write_checkpoint(self, ports: Ports, table: Securable, options: CheckpointOptions) -> Checkpointed:
        """Write a checkpoint or log compaction of the newest version, unless it has one."""
        raise Unsupported(f"{self.name or 'such'} tables have no checkpoints")

    async def add_statistics(
        self, ports: Ports, errand: Errand, table: Securable, after: str | None
    ) -> StatisticsAdded:
        """Commit the statistics of the next files that have none."""
        raise Unsupported(f"the server computes no statistics of {self.name or 'such'} tables")

    async def delete_files(self, ports: Ports, table: Securable) -> None:
        """Delete the files of a purged table. A failure of the store leaves the rest for the next attempt."""
        for location in table.owned_locations:
            await ports.storage.delete_all(location)


_LISTED_ONLY = TableFormat()


class Formats:
    """The formats of this server by their names."""

    def __init__(
        self, formats: Iterable[TableFormat] = (), operations: Mapping[type[Operation], Preparer] | None = None
    ) -> None:
        self.by_name = {each.name: each for each in formats}
        self.operations: dict[type[Operation], Preparer] = dict(operations or {})
        for each in self.by_name.values():
            self.operations.update(each.operations)

    def of(self, securable: Securable) -> TableFormat:
        """The format of a table or view; for every other object the defaults."""
        table = securable.doc.table
        return _LISTED_ONLY if table is None else self.by_name.get(table.format, _LISTED_ONLY)

    def readable_as(self, table: Securable, above: tuple[Securable, ...]) -> str | None:
        """The other format in which clients can read the table; None if there is none."""
        return self.of(table).readable_as(table, above)

    async def project(self, ports: Ports, table: Securable) -> Projection:
        """The table at its newest version, in the other format. Unsupported if it cannot be converted."""
        converter = self.of(table).converter
        if converter is None:
            raise Unsupported(f"'{table.name}' cannot be read in another format")
        return await converter.project(ports, table)

    def converter_of(self, name: str) -> Converter | None:
        """The converter of a format."""
        found = self.by_name.get(name)
        return None if found is None else found.converter
