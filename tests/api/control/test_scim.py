"""SCIM as identity providers speak it: every operation of a patch, every spelling, and filters."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.control.guarded import CONTROL, Guarded

USERS, GROUPS, SERVICES = (f"{CONTROL}/scim2/{name}" for name in ("Users", "Groups", "ServicePrincipals"))
USER_URN = "urn:ietf:params:scim:schemas:core:2.0:User"


async def patch(guarded: Guarded, path: str, *operations: dict[str, Any], status: int = 200) -> Any:
    answer = await guarded.ask(guarded.admin, "PATCH", path, {"Operations": operations})
    assert answer.status_code == status, answer.text
    return answer.json()


async def team_of(guarded: Guarded, *names: str) -> str:
    for name in names:
        await guarded.user(name)
    body = {"displayName": "team", "members": [{"value": guarded.ids[name]} for name in names]}
    return f"{GROUPS}/{(await guarded.run('POST', GROUPS, body, status=201))['id']}"


def names_of(group: Any) -> list[str]:
    return [each["display"] for each in group["members"]]


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "replace", "path": "Active", "value": False},
        {"op": "Replace", "path": f"{USER_URN}:active", "value": "False"},
        {"op": "replace", "value": {"ACTIVE": False}},
        {"op": "add", "value": {f"{USER_URN}:active": False}},
    ],
)
async def test_a_user_is_deactivated_however_the_attribute_is_spelled(
    guarded: Guarded, operation: dict[str, Any]
) -> None:
    ann = await guarded.user("ann")
    await patch(guarded, f"{USERS}/{guarded.ids['ann']}", operation)
    assert await guarded.status(ann, "GET", f"{CONTROL}/scim2/Me") == 401


async def test_attributes_of_a_user_are_removed(guarded: Guarded) -> None:
    await guarded.user("ann")
    path = f"{USERS}/{guarded.ids['ann']}"
    before = await patch(guarded, path, {"op": "add", "value": {"displayName": "Ann", "externalId": "7"}})
    assert (before["displayName"], before["externalId"]) == ("Ann", "7")
    after = await patch(guarded, path, {"op": "remove", "path": "displayName"}, {"op": "Remove", "path": "externalId"})
    assert not {"displayName", "externalId"} & after.keys()
    await patch(guarded, path, {"op": "remove", "path": "active"}, status=400)
    await patch(guarded, path, {"op": "remove"}, status=400)
    await patch(guarded, path, {"op": "move", "path": "active"}, status=400)


async def test_a_patch_that_would_rename_is_refused(guarded: Guarded) -> None:
    team = await team_of(guarded, "ann")
    service = await guarded.run("POST", SERVICES, {"displayName": "loader"}, status=201)
    user, service_path = f"{USERS}/{guarded.ids['ann']}", f"{SERVICES}/{service['id']}"
    for path, attribute, name in (
        (user, "userName", "ann"),
        (service_path, "displayName", "loader"),
        (team, "displayName", "team"),
    ):
        await patch(guarded, path, {"op": "replace", "path": attribute, "value": "other"}, status=400)
        await patch(guarded, path, {"op": "replace", "value": {attribute: "other"}}, status=400)
        await patch(guarded, path, {"op": "replace", "value": {"id": path.rpartition("/")[2], attribute: name}})
    assert names_of(await guarded.run("GET", team)) == ["ann"], "an operation without members changes none"


async def test_a_removal_of_all_members_empties_the_group(guarded: Guarded) -> None:
    team = await team_of(guarded, "ann", "bob")
    assert names_of(await patch(guarded, team, {"op": "remove", "path": "members"})) == []


async def test_operations_on_members_apply_in_their_order(guarded: Guarded) -> None:
    team = await team_of(guarded, "ann", "bob", "cy")
    ann, bob, cy = ([{"value": guarded.ids[name]}] for name in ("ann", "bob", "cy"))

    def op(name: str, value: Any = None) -> dict[str, Any]:
        return {"op": name, "path": "members", "value": value}

    assert names_of(await patch(guarded, team, op("replace", ann), op("add", bob))) == ["ann", "bob"]
    assert names_of(await patch(guarded, team, op("add", cy), op("replace", ann))) == ["ann"]
    assert names_of(await patch(guarded, team, op("remove", ann), op("add", ann))) == ["ann"]
    assert names_of(await patch(guarded, team, op("add", bob), op("remove", bob))) == ["ann"]
    assert names_of(await patch(guarded, team, op("add", bob), op("remove"), op("add", cy))) == ["cy"]


async def test_a_replacement_of_one_member_removes_no_other(guarded: Guarded) -> None:
    """RFC 7644 lets it change attributes of that member, of which there are none."""
    team = await team_of(guarded, "ann", "bob")
    one = {"op": "replace", "path": f'members[value eq "{guarded.ids["ann"]}"]', "value": {"display": "Ann"}}
    await patch(guarded, team, one, status=400)
    assert names_of(await guarded.run("GET", team)) == ["ann", "bob"]


async def test_filters_select_by_the_attribute_that_they_name(guarded: Guarded) -> None:
    for name, display, external in (("ann", "Ann", "7"), ("bob", "ann", "8")):
        body = {"userName": name, "displayName": display, "externalId": external}
        await guarded.run("POST", USERS, body, status=201)
    service = await guarded.run("POST", SERVICES, {"displayName": "loader", "externalId": "9"}, status=201)
    group = await guarded.run("POST", GROUPS, {"displayName": "team", "externalId": "10"}, status=201)
    ann = (await guarded.run("GET", f'{USERS}?filter=userName eq "ann"'))["Resources"][0]

    async def found(path: str, text: str) -> list[str]:
        return [each["id"] for each in (await guarded.run("GET", f"{path}?filter={text}"))["Resources"]]

    assert len(await found(USERS, 'displayName eq "ANN"')) == 2, "texts are compared without regard to case"
    assert await found(USERS, f'id eq "{ann["id"]}"') == [ann["id"]]
    assert await found(USERS, 'externalId eq "7"') == [ann["id"]]
    assert await found(USERS, f'{USER_URN}:userName eq "ANN"') == [ann["id"]]
    assert await found(SERVICES, f'applicationId eq "{service["id"]}"') == [service["id"]]
    assert await found(SERVICES, 'displayName eq "loader"') == [service["id"]]
    assert await found(SERVICES, 'externalId eq "9"') == [service["id"]]
    assert await found(GROUPS, 'displayName eq "TEAM"') == [group["id"]]
    assert await found(GROUPS, 'externalId eq "10"') == [group["id"]]
    for text in ("active pr", 'emails eq "x"', 'userName eq "a" or userName eq "b"'):
        assert await guarded.status(guarded.admin, "GET", f"{USERS}?filter={text}") == 400


async def test_a_deleted_group_is_restored_with_the_members_of_the_request(guarded: Guarded) -> None:
    team = await team_of(guarded, "ann", "bob")
    await guarded.run("DELETE", team, status=204)
    assert await guarded.status(guarded.admin, "GET", team) == 404
    assert await guarded.status(guarded.admin, "POST", GROUPS, {"displayName": "team"}) == 409
    body = {"displayName": "team", "members": [{"value": guarded.ids["bob"]}]}
    assert names_of(await guarded.run("PUT", team, body)) == ["bob"]
    assert names_of(await guarded.run("GET", team)) == ["bob"], "ann was a member of the deleted group"
    assert names_of(await guarded.run("PUT", team, {"displayName": "TEAM"})) == []
