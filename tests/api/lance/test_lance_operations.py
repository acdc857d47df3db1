"""Lance operations in transactions over tables of any format."""

from __future__ import annotations

from typing import Any

from moorage.testing import lance_writer as write
from tests.api.house import House, done, refused
from tests.api.lance.lake import LanceClient

T = "lake$sea$t"
DROP = {"op": "drop", "kind": "table", "path": T.split("$")}


def operation(id: str, staged: dict[str, Any]) -> dict[str, Any]:
    return {"op": "lance_version", "path": id.split("$"), **staged}


async def test_a_version_is_committed_together_with_other_changes(lake: LanceClient, house: House) -> None:
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


async def test_a_refused_version_fails_the_whole_transaction(lake: LanceClient, house: House) -> None:
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
    twice = [operation(T, good), operation(T, write.stage(t, 2))]
    refused(
        await house.console.post("/transactions", {"operations": twice}), 409, "VERSION_TAKEN", "operations[1].version"
    )
    assert await house.console.seq() == seq
    assert await lake.versions(T) == [1]


async def stage(lake: LanceClient, id: str) -> str:
    return str(done(await lake.table(id, "stage"))["location"])


def declaring(id: str, **more: Any) -> dict[str, Any]:
    return {"op": "lance_declare", "path": id.split("$"), **more}


def deregistering(id: str) -> dict[str, Any]:
    return {"op": "lance_deregister", "path": id.split("$")}


async def test_a_table_is_declared_and_written_in_one_transaction(lake: LanceClient, house: House) -> None:
    location, seq = await stage(lake, T), await house.console.seq()
    body = {
        "operations": [
            declaring(T, location=location, properties={"a": "1"}),
            operation(T, write.stage(location, 1)),
            {"op": "create_namespace", "path": ["lake", "land"]},
            operation(T, write.stage(location, 2)),
        ]
    }
    settled = done(await house.console.post("/transactions", body, key="one"))
    assert (settled["seq"], settled["versions"]) == (seq + 1, [1, 2])
    assert (await lake.versions(T), done(await lake.table(T, "describe"))["properties"]) == ([2, 1], {"a": "1"})
    assert done(await house.console.post("/transactions", body, key="one")) == settled


async def test_a_table_is_replaced_by_another_of_its_name_in_one_transaction(lake: LanceClient, house: House) -> None:
    t = await lake.declare(T)
    await lake.grow(T, t, 1)
    for leave in (deregistering(T), DROP):
        location = await stage(lake, "lake$sea$other")
        operations = [leave, declaring(T, location=location), operation(T, write.stage(location, 1))]
        done(await house.console.post("/transactions", {"operations": operations}))
        assert done(await lake.table(T, "describe"))["location"] == location


async def test_a_refused_declaration_fails_the_whole_transaction(lake: LanceClient, house: House) -> None:
    t = await lake.declare(T)
    await lake.grow(T, t, 1)
    location, seq = await stage(lake, "lake$sea$u"), await house.console.seq()
    version = operation("lake$sea$u", write.stage(location, 1))
    new = declaring("lake$sea$u", location=location)
    for operations, status, code, field in (
        ([declaring(T)], 409, "NAME_TAKEN", "operations[0].path"),
        ([new, new], 409, "NAME_TAKEN", "operations[1].path"),
        ([new, declaring("lake$sea$v", location=location)], 400, "INVALID_INPUT", "operations[1].location"),
        ([version, new], 404, "TABLE_NOT_FOUND", "operations[0]"),
        ([new, version, {**version, "version": 3}], 400, "INVALID_INPUT", "operations[2].manifest_path"),
        ([new, deregistering("lake$sea$u"), version], 404, "TABLE_NOT_FOUND", "operations[2].path"),
        ([declaring("lake")], 400, "INVALID_INPUT", "operations[0].path"),
        ([deregistering(T), declaring("lake$none$u")], 404, "NAMESPACE_NOT_FOUND", "operations[1]"),
        ([deregistering(T), DROP], 400, "INVALID_INPUT", "operations[1]"),
        (
            [{"op": "drop", "kind": "namespace", "path": ["lake", "sea"], "cascade": True}, new],
            400,
            "INVALID_INPUT",
            "operations[1].path",
        ),
    ):
        refused(await house.console.post("/transactions", {"operations": operations}), status, code, field)
    assert await house.console.seq() == seq


async def test_every_operation_checks_the_callers_access(lake: LanceClient, house: House) -> None:
    t = await lake.declare(T)
    house.access.locked_out.add("ann")
    for each in (declaring("lake$sea$u"), operation(T, write.stage(t, 1)), deregistering(T)):
        refused(
            await house.console.post("/transactions", {"operations": [each]}, caller="ann"),
            403,
            "FORBIDDEN",
            "operations[0]",
        )
    assert await lake.versions(T) == []
