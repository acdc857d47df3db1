"""Random logs: after each version the manifests name exactly the files and vectors that the log has."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from moorage.formats.delta.replay import to_files
from tests.unit.uniform.test_conversion import Log, entries_of, field, inline_vector, remove
from tests.unit.uniform.twins import Twin

Add = dict[str, Any]


class Walk:
    """A partitioned table whose files exist in the log only."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.log = Log(folder, field("id", "long"), field("p", "string"), by=("p",))
        self.live: dict[str, Add] = {}
        self.past: list[Add] = []

    def new(self, *, data_change: bool = True) -> Add:
        number = self.random.randrange(100)
        bounds = {"minValues": {"id": number}, "maxValues": {"id": number + 5}, "nullCount": {"id": 0}}
        stats = str({"numRecords": 10, **bounds}).replace("'", '"')
        values = {"p": self.random.choice(["a", "b é", None])}
        add = {"path": f"part-{uuid4()}.parquet", "partitionValues": values, "size": 100, "modificationTime": 1}
        return {"add": {**add, "dataChange": data_change, "stats": stats}}

    def some(self) -> list[Add]:
        return self.random.sample(sorted(self.live.values(), key=str), min(len(self.live), self.random.randint(1, 4)))

    def gone(self, add: Add, *, data_change: bool = True) -> Add:
        self.past.append(self.live.pop(add["add"]["path"]))
        vector = add["add"].get("deletionVector")
        return remove(add, dataChange=data_change, **({} if vector is None else {"deletionVector": vector}))

    def put(self, add: Add) -> Add:
        self.live[add["add"]["path"]] = add
        return add

    def step(self) -> None:
        match self.random.choice(["append", "append", "delete", "vector", "compact", "restore", "repeat", "nothing"]):
            case "append":
                actions = [self.put(self.new()) for _ in range(self.random.randint(1, 5))]
            case "delete":
                actions = [self.gone(add) for add in self.some()]
            case "vector":
                actions = [action for add in self.some() for action in self.marked(add)]
            case "compact":
                actions = [self.gone(add, data_change=False) for add in self.some()]
                actions.append(self.put(self.new(data_change=False)))
            case "restore":
                before = [add for add in self.past if add["add"]["path"] not in self.live][-3:]
                actions = [self.put(add) for add in {each["add"]["path"]: each for each in before}.values()]
            case "repeat":  # as writers do to add statistics or row ids to existing files
                actions = [self.put({"add": {**add["add"], "dataChange": False}}) for add in self.some()]
            case _:
                actions = []
        self.log.commit(*actions)

    def marked(self, add: Add) -> tuple[Add, Add]:
        """Mark rows as deleted, or unmark all."""
        rows = self.random.sample(range(10), self.random.randint(0, 3))
        removed = self.gone(add)
        plain = {key: value for key, value in add["add"].items() if key != "deletionVector"}
        if not rows and "deletionVector" not in add["add"]:
            rows = [9]
        vector = {"deletionVector": inline_vector(*sorted(rows), 20 + self.random.randrange(1000))} if rows else {}
        return removed, self.put({"add": {**plain, **vector}})


@pytest.mark.parametrize("seed", range(12))
def test_manifests_name_exactly_the_files_of_the_log(tmp_path: Path, seed: int) -> None:
    walk = Walk(tmp_path, seed)
    twin = Twin(tmp_path)
    for _ in range(40):
        walk.step()
        made = twin.follow()
        found, expected = entries_of(twin), to_files(twin.state.files())
        assert sorted(each.path for each in found if not each.content) == sorted(
            twin.root + file.path for file in expected
        )
        vectors = {twin.root + file.path: file.deletion_vector.cardinality for file in expected if file.deletion_vector}
        assert {each.referenced: each.records for each in found if each.content} == vectors
        assert len([each for each in found if each.content]) == len(vectors)
        summary = made.doc["snapshots"][-1]["summary"]
        assert int(summary["total-data-files"]) == len(expected)
        assert int(summary["total-delete-files"]) == len(vectors)
    assert twin.restarts == 1
