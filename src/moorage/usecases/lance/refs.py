"""Tags and branches of Lance tables.

Whose word counts: the files in `_refs/` are the truth about which tags and branches exist, because every Lance
client reads and writes them itself and tells nobody. So this catalog keeps no copy that could disagree: it
reads the same files and writes them with pylance, in the client's own format. The ledger is the truth about
versions, also those of branches: a tag can only be put on a version that it knows, a version that a tag
stands for or that a branch begins with is not deleted, a branch begins with a version that the ledger records,
and ends with an entry that drops its line. A tag that a client makes in the very moment in which its version is
deleted names a version without a record; its files stay until upkeep has looked at the tags again.
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
from moorage.usecases.lance.idempotent import finish_once
from moorage.usecases.lance.lookup import find_table
from moorage.usecases.lance.work import change_table
from moorage.usecases.ports import Errand, Ports

P = ParamSpec("P")
R = TypeVar("R")

_LARGEST_REF = 64 * 1024


async def create_tag(
    ports: Ports, errand: Errand, address: Address, tag: str, *, branch: str | None, version: int
) -> None:
    require_tag_name(tag)
    await _once(ports, errand, address, refs.create_tag, tag, branch=branch, version=version)


async def update_tag(
    ports: Ports, errand: Errand, address: Address, tag: str, *, branch: str | None, version: int
) -> None:
    """Let a tag stand for another version."""
    require_tag_name(tag)
    await _once(ports, errand, address, refs.update_tag, tag, branch=branch, version=version)


async def delete_tag(ports: Ports, errand: Errand, address: Address, tag: str) -> None:
    require_tag_name(tag)
    await _once(ports, errand, address, refs.delete_tag, tag)


async def get_tag(ports: Ports, errand: Errand, address: Address, tag: str) -> TagContents:
    """The version that a tag stands for."""
    require_tag_name(tag)
    table = (await find_table(ports, errand.caller, address, Privilege.READ))[-1]
    path = ref_path(TAGS, tag)
    data = await ports.storage.read(require_location(table), path, limit=_LARGEST_REF)
    if data is None:
        raise SecurableNotFound(f"table '{address}' has no tag '{tag}'", field="tag", kind="tag")
    return parse_tag(data, path)


async def list_tags(
    ports: Ports, errand: Errand, address: Address, *, token: str | None, limit: int
) -> tuple[dict[str, TagContents], str | None]:
    """Some tags in the order of their names, and the token that continues."""
    table = (await find_table(ports, errand.caller, address, Privilege.READ))[-1]
    return await _page(ports, errand, table, TAGS, parse_tag, token=token, limit=limit)


async def tags_of(ports: Ports, table: Securable) -> dict[str, TagContents]:
    """Every tag of a table."""
    return await _read(ports, table, TAGS, await _names(ports, table, TAGS), parse_tag)


async def branches_of(ports: Ports, table: Securable) -> dict[str, BranchContents]:
    """Every branch of a table."""
    return await _read(ports, table, BRANCHES, await _names(ports, table, BRANCHES), parse_branch)


async def list_branches(
    ports: Ports, errand: Errand, address: Address, *, token: str | None, limit: int
) -> tuple[dict[str, BranchContents], str | None]:
    """Some branches in the order of their names, and the token that continues."""
    table = (await find_table(ports, errand.caller, address, Privilege.READ))[-1]
    return await _page(ports, errand, table, BRANCHES, parse_branch, token=token, limit=limit)


async def create_branch(
    ports: Ports, errand: Errand, address: Address, name: str, *, branch: str | None, version: int | None
) -> str | None:
    """A line of its own that begins with a version of the main line or of another branch; the entry of that."""
    require_new_branch_name(name)
    return await _once(ports, errand, address, refs.create_branch, name, branch=branch, version=version)


async def delete_branch(ports: Ports, errand: Errand, address: Address, name: str) -> str | None:
    """The branch is gone, with the files that only it had; the number of the entry that dropped its line.

    Files first: whoever asks in between finds a branch without its newest manifest, and that counts as none.
    """
    require_branch(name)

    async def delete(unkeyed: Errand) -> str | None:
        with suppress(SecurableNotFound):  # a client has deleted the files already, and only the line is left
            await change_table(ports, unkeyed, address, refs.delete_branch, name)
        seq = await drop_line(ports, unkeyed, address, name)
        return None if seq is None else str(seq)

    return await finish_once(ports, errand, address, delete)


async def _once(
    ports: Ports,
    errand: Errand,
    address: Address,
    work: Callable[Concatenate[JobTable, P], None],
    *given: P.args,
    **named: P.kwargs,
) -> str | None:
    """Let a worker change files of a table that are no version, once under a key."""

    async def change(unkeyed: Errand) -> str | None:
        return (await change_table(ports, unkeyed, address, work, *given, **named)).transaction

    return await finish_once(ports, errand, address, change)


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
    """What the files say; one that was deleted since it was listed is left out."""
    read: dict[str, R] = {}
    for name in names:
        path = ref_path(folder, name)
        data = await ports.storage.read(require_location(table), path, limit=_LARGEST_REF)
        if data is not None:
            read[name] = parse(data, path)
    return read
