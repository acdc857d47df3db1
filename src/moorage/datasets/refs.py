"""Tags and branches, which are files in `_refs/` that every Lance client reads and writes."""

from __future__ import annotations

from moorage.core.errors import NameTaken, SecurableNotFound
from moorage.datasets.job_table import JobTable


def create_tag(desk: JobTable, tag: str, *, branch: str | None, version: int) -> None:
    dataset = desk.open()
    if tag in dataset.tags.list():
        raise NameTaken(f"the table already has a tag '{tag}'", field="tag", kind="tag")
    desk.namespace.at(branch, version)
    dataset.tags.create(tag, version if branch is None else (branch, version))


def update_tag(desk: JobTable, tag: str, *, branch: str | None, version: int) -> None:
    """Move a tag to another version."""
    dataset = desk.open()
    _require_tag(tag, dataset.tags.list())
    desk.namespace.at(branch, version)
    dataset.tags.update(tag, version if branch is None else (branch, version))


def delete_tag(desk: JobTable, tag: str) -> None:
    dataset = desk.open()
    _require_tag(tag, dataset.tags.list())
    dataset.tags.delete(tag)


def _require_tag(tag: str, known: object) -> None:
    if tag not in known:  # type: ignore[operator]
        raise SecurableNotFound(f"the table has no tag '{tag}'", field="tag", kind="tag")


def create_branch(desk: JobTable, name: str, *, branch: str | None, version: int | None) -> None:
    """Create a line that starts at a version of another line."""
    if desk.namespace.newest(name) is not None:
        raise NameTaken(f"the table already has a branch '{name}'", field="name", kind="branch")
    desk.open(branch, version).create_branch(name)


def delete_branch(desk: JobTable, name: str) -> None:
    """Delete a branch and its own files. Files that it shares with other lines are kept."""
    dataset = desk.open()
    if name not in dataset.branches.list():
        raise SecurableNotFound(f"the table has no branch '{name}'", field="name", kind="branch")
    dataset.branches.delete(name)
