"""Tests marked with `xdist_group` run one after the other, in one process.

`--dist loadgroup` promises this, but pytest-xdist 3.8 writes the group's name into a field that pytest 9.2 no
longer reads, and reports no error. tests/house/test_groups.py verifies the promise.
"""

from __future__ import annotations

import pytest
from _pytest.nodeid import NodeId


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not getattr(config.option, "loadgroup", False):
        return
    for item in items:
        mark = item.get_closest_marker("xdist_group")
        if mark is not None and "@" not in item.nodeid:
            item._id = NodeId.parse(f"{item.nodeid}@{mark.args[0]}")
