"""Tags and branches of Lance tables.

The files in `_refs/` are the truth about which tags and branches exist, because every Lance client reads and writes
them directly. So the catalog keeps no copy that could disagree: it reads the same files, and writes them with pylance
in the client's own format.

The ledger is the truth about versions, including those of branches. A tag can only name a version that the ledger has.
A version that a tag names, or at which a branch begins, is not deleted. A branch begins with a version that the ledger
records, and ends with an entry that drops its line. A tag that a client creates while its version is being deleted
names a version without a record; the version's files stay until upkeep has read the tags again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Concatenate, ParamSpec, TypeVar

from moorage.core.errors import SecurableNotFound
from moorage.core.locations import require_location
from moorage.core.privileges import Privilege
from moorage.core.securables import Securable
from moorage.datasets import refs
from moorage.datasets.job_table import JobTable
from moorage.formats.lance.manifests import require_branch
from moorage.formats.lance.refs import (
    BRANCHES,
    TAGS,
    BranchContents,
    TagContents,
    parse_branch,
    parse_tag,
    ref_name,
    ref_path,
    require_new_branch_name,
    require_tag_name,
)
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.catalog.paging import seal, unseal
from moorage.usecases.lance.branches import drop_line
from moorage.usecases.lance.idempotent import record_when_done
from moorage.usecases.lance.lookup import find_table
from moorage.usecases.lance.work import change_table
from moorage.usecases.ports import Errand, Ports

P = ParamSpec("P")
R = TypeVar("R")

_MAX_REF_BYTES = 64 * 1024


async def create_tag(
    ports: Ports, errand: Errand, address: Address, tag: str, *, branch: str | None, version: int
) -> None:
    require_tag_name(tag)
    await _change_files_once(ports, errand, address, refs.create_tag, tag, branch=branch, version=version)


async def update_tag(
    ports: Ports, errand: Errand, address: Address, tag: str, *, branch: str | None, version: int
) -> None:
    """Point a tag at another version."""
    require_tag_name(tag)
    await _change_files_once(ports, errand, address, refs.update_tag, tag, branch=branch, version=version)


async def delete_tag(ports: Ports, errand: Errand, address: Address, tag: str) -> None:
    require_tag_name(tag)
    await _change_files_once(ports, errand, address, refs.delete_tag, tag)


async def get_tag(ports: Ports, errand: Errand, address: Address, tag: str) -> TagContents:
    """The version that a tag names."""
    require_tag_name(tag)
    table = (await find_table(ports, errand.caller, address, Privilege.READ))[-1]
    path = ref_path(TAGS, tag)
    data = await ports.storage.read(require_location(table), path, limit=_MAX_REF_BYTES)
    if data is None:
        raise SecurableNotFound(f"table '{address}' has no tag '{tag}'", field="tag", kind="tag")
    return parse_tag(data, path)


async def list_tags(
    ports: Ports, errand: Errand, address: Address, *, token: str | None, limit: int
) -> tuple[dict[str, TagContents], str | None]:
    """A page of tags in name order, and the token of the next page."""
    table = (await find_table(ports, errand.caller, address, Privilege.READ))[-1]
    return await _page(ports, errand, table, TAGS, parse_tag, token=token, limit=limit)


async def tags_of(ports: Ports, table: Securable) -> dict[str, TagContents]:
    """All tags of a table."""
    return await _read(ports, table, TAGS, await _names(ports, table, TAGS), parse_tag)


async def branches_of(ports: Ports, table: Securable) -> dict[str, BranchContents]:
    """All branches of a table."""
    return await _read(ports, table, BRANCHES, await _names(ports, table, BRANCHES), parse_branch)


async def list_branches(
    ports: Ports, errand: Errand, address: Address, *, token: str | None, limit: int
) -> tuple[dict[str, BranchContents], str | None]:
    """A page of branches in name order, and the token of the next page."""
    table = (await find_table(ports, errand.caller, address, Privilege.READ))[-1]
    return await _page(ports, errand, table, BRANCHES, parse_branch, token=token, limit=limit)


async def create_branch(
    ports: Ports, errand: Errand, address: Address, name: str, *, branch: str | None, version: int | None
) -> str | None:
    """Create a branch that begins with a version of the main line or of another branch; the number of the entry."""
    require_new_branch_name(name)
    return await _change_files_once(ports, errand, address, refs.create_branch, name, branch=branch, version=version)


async def delete_branch(ports: Ports, errand: Errand, address: Address, name: str) -> str | None:
    """Delete a branch with the files that only it has; the number of the entry that drops its line.

    The files are deleted first: a request in between finds a branch without its newest manifest, which is treated as
    absent.
    """
    require_branch(name)

    async def delete(unkeyed: Errand) -> str | None:
        with suppress(SecurableNotFound):  # a client deleted the files; only the line is left
            await change_table(ports, unkeyed, address, refs.delete_branch, name)
        seq = await drop_line(ports, unkeyed, address, name)
        return None if seq is None else str(seq)

    return await record_when_done(ports, errand, address, delete)


async def _change_files_once(
    ports: Ports,
    errand: Errand,
    address: Address,
    work: Callable[Concatenate[JobTable, P], None],
    *given: P.args,
    **named: P.kwargs,
) -> str | None:
    """Change files of a table that are not part of a version, in a worker process, once per idempotency key."""

    async def change(unkeyed: Errand) -> str | None:
        return (await change_table(ports, unkeyed, address, work, *given, **named)).transaction

    return await record_when_done(ports, errand, address, change)


async def _page(
    ports: Ports,
    errand: Errand,
    table: Securable,
    folder: str,
    parse: Callable[[bytes, str], R],
    *,
    token: str | None,
    limit: int,
) -> tuple[dict[str, R], str | None]:
    scope = f"{errand.caller.id}/{table.id}/{folder}"
    after = unseal(ports.page_secret, scope, token)
    names = [name for name in await _names(ports, table, folder) if name > after]
    more = seal(ports.page_secret, scope, names[limit - 1]) if len(names) > limit else None
    return await _read(ports, table, folder, names[:limit], parse), more


async def _names(ports: Ports, table: Securable, folder: str) -> list[str]:
    found = (ref_name(folder, each.path) for each in await ports.storage.list(require_location(table), folder))
    return sorted(name for name in found if name is not None)


async def _read(
    ports: Ports, table: Securable, folder: str, names: list[str], parse: Callable[[bytes, str], R]
) -> dict[str, R]:
    """The contents of the files. A file that was deleted since it was listed is left out."""
    read: dict[str, R] = {}
    for name in names:
        path = ref_path(folder, name)
        data = await ports.storage.read(require_location(table), path, limit=_MAX_REF_BYTES)
        if data is not None:
            read[name] = parse(data, path)
    return read
