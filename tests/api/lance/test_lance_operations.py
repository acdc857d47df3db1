"""A version of a Lance table as part of a transaction over tables of any format."""

from __future__ import annotations

from typing import Any

from moorage.testing import lance_writer as write
from tests.api.house import House, done, refused
from tests.api.lance.lake import LanceClient

T = "lake$sea$t"


def operation(id: str, staged: dict[str, Any]) -> dict[str, Any]:
    return {"op": "lance_version", "path": id.split("$"), **staged}


async def test_a_version_comes_together_with_other_changes(lake: LanceClient, house: House) -> None:
    t, u = await lake.declare(T), await lake.declare("lake$u")
    await lake.grow(T, t, 1)
    seq = await house.console.seq()
    body = {
        "operations": [
            operation(T, write.stage(t, 2)),
            {"op": "create_namespace", "path": ["lake", "land"]},
            operation("lake$u", write.stage(u, 1)),
        ]
    }
    settled = done(await house.console.post("/transactions", body, key="one"))
    assert settled["seq"] == seq + 1
    assert settled["versions"] == [2, 1]
    assert (await lake.versions(T), await lake.versions("lake$u")) == ([2, 1], [1])
    assert done(await house.console.post("/transactions", body, key="one")) == settled
    refused(await house.console.post("/transactions", body), 409, "VERSION_TAKEN", "operations[0].version")


async def test_a_version_that_is_refused_takes_the_others_with_it(lake: LanceClient, house: House) -> None:
    t = await lake.declare(T)
    await lake.grow(T, t, 1)
    seq = await house.console.seq()
    space = {"op": "create_namespace", "path": ["lake", "land"]}
    good = write.stage(t, 2)
    for staged, status, code, field in (
        (write.stage(t, 1), 409, "VERSION_TAKEN", "version"),
        (write.stage(t, 3), 400, "INVALID_INPUT", "version"),
        ({**good, "manifest_size": 1}, 400, "INVALID_INPUT", "manifest_size"),
        ({**good, "branch": "dev"}, 400, "INVALID_INPUT", "manifest_path"),
        ({**good, "path": ["lake", "sea", "none"]}, 404, "TABLE_NOT_FOUND", None),
    ):
        answer = await house.console.post("/transactions", {"operations": [space, operation(T, good) | staged]})
        refused(answer, status, code, f"operations[1].{field}" if field else "operations[1]")
    twice = [operation(T, good), operation(T, write.stage(t, 3))]
    refused(
        await house.console.post("/transactions", {"operations": twice}), 400, "INVALID_INPUT", "operations[1].version"
    )
    assert await house.console.seq() == seq
    assert await lake.versions(T) == [1]
