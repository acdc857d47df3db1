"""Tags and branches: the files in `_refs/` that every Lance client reads and writes."""

from __future__ import annotations

from moorage.core.errors import NameTaken, SecurableNotFound
from moorage.datasets.desk import Desk


def create_tag(desk: Desk, tag: str, *, branch: str | None, version: int) -> None:
    dataset = desk.open()
    if tag in dataset.tags.list():
        raise NameTaken(f"the table has a tag '{tag}' already", field="tag", kind="tag")
    desk.namespace.at(branch, version)
    dataset.tags.create(tag, version if branch is None else (branch, version))


def update_tag(desk: Desk, tag: str, *, branch: str | None, version: int) -> None:
    """Let a tag stand for another version."""
    dataset = desk.open()
    _require_tag(tag, dataset.tags.list())
    desk.namespace.at(branch, version)
    dataset.tags.update(tag, version if branch is None else (branch, version))


def delete_tag(desk: Desk, tag: str) -> None:
    dataset = desk.open()
    _require_tag(tag, dataset.tags.list())
    dataset.tags.delete(tag)


def _require_tag(tag: str, known: object) -> None:
    if tag not in known:  # type: ignore[operator]
        raise SecurableNotFound(f"the table has no tag '{tag}'", field="tag", kind="tag")


def create_branch(desk: Desk, name: str, *, branch: str | None, version: int | None) -> None:
    """A new line that begins with a version of another."""
    if desk.namespace.newest(name) is not None:
        raise NameTaken(f"the table has a branch '{name}' already", field="name", kind="branch")
    desk.open(branch, version).create_branch(name)


def delete_branch(desk: Desk, name: str) -> None:
    """The branch and its own files are gone; what it shared with others stays."""
    dataset = desk.open()
    if name not in dataset.branches.list():
        raise SecurableNotFound(f"the table has no branch '{name}'", field="name", kind="branch")
    dataset.branches.delete(name)
