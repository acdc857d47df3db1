"""Users, groups and service principals, and the tokens by which they authenticate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from moorage import fresh
from moorage.core.ids import SecurableId
from moorage.core.names import name_key
from moorage.core.securables import Kind, Shelf
from moorage.core.tokens import new_token
from moorage.ledger.port import Ledger, Step
from moorage.ledger.sqlite import SqliteLedger
from moorage.testing import builders as make
from moorage.usecases.identity.administrator import ensure_administrator, has_administrator, reset_administrator
from tests.api.control.guarded import CONTROL, UNITY, Guarded
from tests.api.house import done, until

ME = f"{CONTROL}/scim2/Me"
USERS = f"{CONTROL}/scim2/Users"
GROUPS = f"{CONTROL}/scim2/Groups"
TOKENS = f"{CONTROL}/tokens"


async def me(guarded: Guarded, token: str | None) -> Any:
    return done(await guarded.ask(token, "GET", ME))["userName"]


def scim_refused(answer: Any, status: int, text: str) -> None:
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert body["schemas"] == ["urn:ietf:params:scim:api:messages:2.0:Error"]
    assert body["status"] == str(status)
    assert text in body["detail"]


# --- tokens ----------------------------------------------------------------------------------------


async def test_a_token_authenticates_its_principal(guarded: Guarded) -> None:
    ann = await guarded.user("Ann@example.com")
    assert await me(guarded, ann) == "Ann@example.com"
    assert await me(guarded, guarded.admin) == "admin"


async def test_forged_tokens_are_refused(guarded: Guarded) -> None:
    ann = await guarded.user("ann")
    flipped = ann[:-1] + ("A" if ann[-1] != "A" else "B")
    unknown = new_token(fresh.securable_id(), "x" * 43)
    of_a_user = new_token(SecurableId(guarded.ids["ann"]), "x" * 43)
    of_the_metastore = new_token(guarded.ledger.root, "x" * 43)
    for forged in (flipped, unknown, of_a_user, of_the_metastore, ann[:-1], ann + "A", "admin", "open"):
        answer = await guarded.ask(forged, "GET", ME)
        assert answer.status_code == 401, forged
        assert answer.headers["www-authenticate"] == "Bearer"
        assert len(forged) < 6 or forged not in answer.text
    assert await guarded.status(None, "GET", ME) == 401


async def test_the_scheme_must_be_bearer(guarded: Guarded) -> None:
    for header in (guarded.admin, f"Basic {guarded.admin}", f"Token {guarded.admin}"):
        assert (await guarded.ask(None, "GET", ME, headers={"authorization": header})).status_code == 401
    assert (await guarded.ask(None, "GET", ME, headers={"authorization": f"bearer {guarded.admin}"})).is_success


async def test_an_expired_token_is_refused(guarded: Guarded) -> None:
    ann = await guarded.user("ann", lifetime_days=1)
    guarded.house.clock.advance(24 * make.HOUR_MS - 1)
    assert await me(guarded, ann) == "ann"
    guarded.house.clock.advance(1)
    answer = await guarded.ask(ann, "GET", ME)
    scim_refused(answer, 401, "expired")


async def test_a_revoked_token_is_refused_with_the_next_request(guarded: Guarded) -> None:
    first = await guarded.user("ann")
    second = await guarded.token("ann")
    listed = done(await guarded.ask(first, "GET", TOKENS))["tokens"]
    assert len(listed) == 2
    assert await guarded.status(first, "DELETE", f"{TOKENS}/{listed[0]['token_id']}") == 204
    states = [await guarded.status(token, "GET", ME) for token in (first, second)]
    assert sorted(states) == [200, 401]


async def test_a_token_is_listed_without_its_secret_and_with_its_last_use(guarded: Guarded) -> None:
    ann = await guarded.user("ann", comment="notebook", scope="read")
    await me(guarded, ann)

    async def is_noted() -> bool:
        listed = done(await guarded.ask(guarded.admin, "GET", f"{TOKENS}?principal=ann"))["tokens"]
        return listed[0]["last_used_at"] is not None

    await until(is_noted)  # the use is recorded after the response
    answer = await guarded.ask(guarded.admin, "GET", f"{TOKENS}?principal=ann")
    (token,) = done(answer)["tokens"]
    assert ann not in answer.text
    assert token | {"token_id": "", "created_at": 0} == {
        "token_id": "",
        "principal": "ann",
        "comment": "notebook",
        "scope": "read",
        "created_at": 0,
        "created_by": "admin",
        "expires_at": None,
        "last_used_at": guarded.house.clock.now_ms,
    }


async def test_a_later_use_of_a_known_token_is_noted_again(guarded: Guarded) -> None:
    ann = await guarded.user("ann")
    for _ in range(2):
        guarded.house.clock.advance(10 * 60_000)
        used_at = guarded.house.clock.now_ms
        await me(guarded, ann)

        async def is_noted(at: int = used_at) -> bool:
            listed = done(await guarded.ask(guarded.admin, "GET", f"{TOKENS}?principal=ann"))["tokens"]
            return bool(listed[0]["last_used_at"] == at)

        await until(is_noted)


async def test_users_manage_their_own_tokens_and_no_others(guarded: Guarded) -> None:
    ann, bob = await guarded.user("ann"), await guarded.user("bob")
    assert await guarded.status(ann, "POST", TOKENS, {}) == 201
    assert await guarded.status(ann, "POST", TOKENS, {"principal": "Ann"}) == 201, "names ignore case"
    assert await guarded.status(ann, "POST", TOKENS, {"principal": "bob"}) == 403
    assert await guarded.status(ann, "GET", f"{TOKENS}?principal=bob") == 403
    (of_bob,) = done(await guarded.ask(bob, "GET", TOKENS))["tokens"]
    unknown = fresh.securable_id()
    refusals = [await guarded.ask(ann, "DELETE", f"{TOKENS}/{id}") for id in (of_bob["token_id"], unknown)]
    assert [answer.status_code for answer in refusals] == [404, 404], "a foreign token is answered as a missing one"
    assert await me(guarded, bob) == "bob"


async def test_a_token_for_reading_creates_nothing_and_revokes_only_itself(guarded: Guarded) -> None:
    await guarded.run("POST", f"{UNITY}/catalogs", {"name": "lake"})
    reader = await guarded.token("admin", scope="read")
    assert await guarded.status(reader, "GET", f"{UNITY}/catalogs/lake") == 200
    assert await guarded.status(reader, "POST", f"{UNITY}/catalogs", {"name": "other"}) == 403
    assert await guarded.status(reader, "POST", TOKENS, {}) == 403
    assert await guarded.status(reader, "POST", TOKENS, {"scope": "read", "lifetime_days": 1}) == 403
    ids = {each["scope"]: each["token_id"] for each in done(await guarded.ask(reader, "GET", TOKENS))["tokens"]}
    assert await guarded.status(reader, "DELETE", f"{TOKENS}/{ids['all']}") == 403
    assert await guarded.status(reader, "DELETE", f"{TOKENS}/{ids['read']}") == 204
    assert await guarded.status(reader, "GET", ME) == 401
    assert await me(guarded, guarded.admin) == "admin"


async def test_a_token_does_not_outlive_the_one_that_created_it(guarded: Guarded) -> None:
    ann = await guarded.user("ann", lifetime_days=30)
    (parent,) = done(await guarded.ask(ann, "GET", TOKENS))["tokens"]
    made = done(await guarded.ask(ann, "POST", TOKENS, {}), 201)
    assert made["expires_at"] == parent["expires_at"], "without a lifetime, it ends with the other"
    assert (
        done(await guarded.ask(ann, "POST", TOKENS, {"lifetime_days": 30}), 201)["expires_at"] == parent["expires_at"]
    )
    assert await guarded.status(ann, "POST", TOKENS, {"lifetime_days": 31}) == 400
    guarded.house.clock.advance(24 * make.HOUR_MS)
    assert await guarded.status(ann, "POST", TOKENS, {"lifetime_days": 30}) == 400
    child = done(await guarded.ask(ann, "POST", TOKENS, {"lifetime_days": 29}), 201)["token"]
    assert await guarded.status(child, "POST", TOKENS, {"lifetime_days": 30}) == 400


async def test_an_administrator_gives_others_tokens_that_outlive_its_own(guarded: Guarded) -> None:
    await guarded.user("ann")
    short = await guarded.token("admin", lifetime_days=1)
    made = done(await guarded.ask(short, "POST", TOKENS, {"principal": "ann", "lifetime_days": 90}), 201)
    assert made["principal"] == "ann"
    assert await guarded.status(short, "POST", TOKENS, {"lifetime_days": 90}) == 400


async def test_a_repeated_creation_does_not_show_the_secret_again(guarded: Guarded) -> None:
    key = {"idempotency-key": "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d99"}
    first = await guarded.ask(guarded.admin, "POST", TOKENS, {}, headers=key)
    second = await guarded.ask(guarded.admin, "POST", TOKENS, {}, headers=key)
    assert (first.status_code, second.status_code) == (201, 400)
    assert len(done(await guarded.ask(guarded.admin, "GET", TOKENS))["tokens"]) == 2


# --- principals ------------------------------------------------------------------------------------


async def test_only_administrators_manage_principals(guarded: Guarded) -> None:
    ann = await guarded.user("ann")
    for verb, path, body in (
        ("POST", USERS, {"userName": "eve"}),
        ("GET", USERS, None),
        ("GET", f"{USERS}/{guarded.ids['ann']}", None),
        ("DELETE", f"{USERS}/{guarded.ids['ann']}", None),
        ("POST", GROUPS, {"displayName": "g"}),
        ("POST", f"{CONTROL}/scim2/ServicePrincipals", {"displayName": "job"}),
    ):
        assert await guarded.status(ann, verb, path, body) == 403, path
    await guarded.group("platform")
    admins = (await guarded.run("GET", f'{GROUPS}?filter=displayName eq "admins"'))["Resources"][0]
    guarded.ids["admins"] = admins["id"]
    await guarded.join("admins", "platform")
    await guarded.join("platform", "ann")
    assert await guarded.status(ann, "GET", USERS) == 200, "an administrator by a nested group"
    await guarded.leave("platform", "ann")
    assert await guarded.status(ann, "GET", USERS) == 403


async def test_an_inactive_or_deleted_user_is_refused(guarded: Guarded) -> None:
    ann, bob = await guarded.user("ann"), await guarded.user("bob")
    off = {"Operations": [{"op": "Replace", "value": {"active": "False"}}]}
    await guarded.run("PATCH", f"{USERS}/{guarded.ids['ann']}", off)
    scim_refused(await guarded.ask(ann, "GET", ME), 401, "not active")
    await guarded.run("PUT", f"{USERS}/{guarded.ids['ann']}", {"userName": "ann", "active": True})
    assert await me(guarded, ann) == "ann"
    await guarded.run("DELETE", f"{USERS}/{guarded.ids['bob']}", status=204)
    assert await guarded.status(bob, "GET", ME) == 401
    assert await guarded.status(guarded.admin, "GET", f"{USERS}/{guarded.ids['bob']}") == 404


async def test_the_name_of_a_deleted_user_stays_taken(guarded: Guarded) -> None:
    """Otherwise the next user of that name would inherit its grants."""
    bob = await guarded.user("bob")
    await guarded.run("DELETE", f"{USERS}/{guarded.ids['bob']}", status=204)
    for name in ("bob", "BOB"):
        scim_refused(await guarded.ask(guarded.admin, "POST", USERS, {"userName": name}), 409, "deleted")
    scim_refused(await guarded.ask(guarded.admin, "POST", GROUPS, {"displayName": "bob"}), 409, "deleted")
    await guarded.run("PUT", f"{USERS}/{guarded.ids['bob']}", {"userName": "bob"})
    assert await guarded.status(bob, "GET", ME) == 401, "its tokens stay revoked"


async def test_names_are_unique_among_all_principals_and_some_are_reserved(guarded: Guarded) -> None:
    await guarded.user("ann")
    scim_refused(await guarded.ask(guarded.admin, "POST", GROUPS, {"displayName": "Ann"}), 409, "exists")
    for name in ("local", "moorage", "Account Users"):
        scim_refused(await guarded.ask(guarded.admin, "POST", USERS, {"userName": name}), 400, "reserved")
    rename = {"userName": "other"}
    scim_refused(await guarded.ask(guarded.admin, "PUT", f"{USERS}/{guarded.ids['ann']}", rename), 400, "cannot change")


async def test_users_are_found_by_name_and_listed_in_parts(guarded: Guarded) -> None:
    for name in ("cy", "ann", "bob"):
        await guarded.user(name)
    found = await guarded.run("GET", f'{USERS}?filter=userName eq "BOB"')
    assert [each["userName"] for each in found["Resources"]] == ["bob"]
    part = await guarded.run("GET", f"{USERS}?startIndex=3&count=1")
    assert (part["totalResults"], part["itemsPerPage"], part["Resources"][0]["userName"]) == (4, 1, "bob")
    assert (await guarded.ask(guarded.admin, "GET", f"{USERS}?filter=active pr")).status_code == 400


async def test_a_user_may_be_created_by_its_address(guarded: Guarded) -> None:
    body = {"displayName": "Dee", "emails": [{"value": "x@example.com"}, {"value": "dee@example.com", "primary": True}]}
    made = await guarded.run("POST", USERS, body, status=201)
    assert (made["userName"], made["displayName"]) == ("dee@example.com", "Dee")


async def test_members_of_groups_are_added_removed_and_replaced(guarded: Guarded) -> None:
    for name in ("ann", "bob", "cy"):
        await guarded.user(name)
    ids = guarded.ids
    body = {"displayName": "team", "members": [{"value": ids["ann"]}]}
    team = (await guarded.run("POST", GROUPS, body, status=201))["id"]

    async def names() -> list[str]:
        return [each["display"] for each in (await guarded.run("GET", f"{GROUPS}/{team}"))["members"]]

    assert await names() == ["ann"]
    add = {"op": "add", "value": {"members": [{"value": ids["bob"]}]}}
    remove = {"op": "remove", "path": f'members[value eq "{ids["ann"]}"]'}
    await guarded.run("PATCH", f"{GROUPS}/{team}", {"Operations": [add, remove]})
    assert await names() == ["bob"]
    await guarded.run("PUT", f"{GROUPS}/{team}", {"displayName": "team", "members": [{"value": ids["cy"]}]})
    assert await names() == ["cy"]
    unknown = {"Operations": [{"op": "add", "path": "members", "value": [{"value": fresh.securable_id()}]}]}
    assert await guarded.status(guarded.admin, "PATCH", f"{GROUPS}/{team}", unknown) == 404


async def test_a_group_cannot_contain_itself(guarded: Guarded) -> None:
    await guarded.group("outer")
    await guarded.group("inner", "outer")
    add = {"Operations": [{"op": "add", "path": "members", "value": [{"value": guarded.ids["outer"]}]}]}
    for group in ("inner", "outer"):
        answer = await guarded.ask(guarded.admin, "PATCH", f"{GROUPS}/{guarded.ids[group]}", add)
        scim_refused(answer, 400, "contains")


async def test_a_service_principal_has_tokens_and_a_group_has_none(guarded: Guarded) -> None:
    await guarded.run("POST", f"{CONTROL}/scim2/ServicePrincipals", {"displayName": "loader"}, status=201)
    assert await me(guarded, await guarded.token("loader")) == "loader"
    await guarded.group("team")
    assert await guarded.status(guarded.admin, "POST", TOKENS, {"principal": "team"}) == 400


# --- the first administrator -----------------------------------------------------------------------


async def owner_of(ledger: Ledger, *names: str) -> str:
    return (await ledger.walk(make.path_to(*names))).chain[-1].owner


async def test_what_an_open_server_created_belongs_to_the_first_administrator(tmp_path: Path) -> None:
    ledger = await SqliteLedger.open(tmp_path)
    try:
        top = make.catalog(ledger.root, "lake", owner="local")
        inner = make.namespace(top.id, "sea", owner="local")
        tables = [make.table(inner.id, f"t{n:04}", owner="local") for n in range(900)]
        model = make.create(Kind.MODEL, inner.id, "m", owner="local")
        version = make.create(Kind.MODEL_VERSION, model.id, "1", owner="local")
        others = [make.create(kind, ledger.root, "x", owner="local") for kind in (Kind.SHARE, Kind.RECIPIENT)]
        await make.add(
            ledger, *others, top, inner, model, version, make.table(inner.id, "of_bob", owner="bob"), *tables
        )
        assert not await has_administrator(ledger)
        assert await ensure_administrator(ledger) is not None
        for names in (("lake",), ("lake", "sea"), ("lake", "sea", "t0000"), ("lake", "sea", "t0899")):
            shelves = (Shelf.CATALOG, Shelf.NAMESPACE, Shelf.RELATION)[: len(names)]
            steps = [Step(shelf, name_key(name)) for shelf, name in zip(shelves, names, strict=True)]
            assert (await ledger.walk(steps)).chain[-1].owner == "admin", names
        for each in (version, *others):
            assert (await ledger.lineage(each.id)).chain[-1].owner == "admin", each.kind
        assert await owner_of(ledger, "lake", "sea", "of_bob") == "bob"
    finally:
        await ledger.close()


async def test_a_second_start_shows_no_token_and_a_reset_replaces_it(guarded: Guarded) -> None:
    assert await ensure_administrator(guarded.ledger) is None
    second = await reset_administrator(guarded.ledger)
    assert await guarded.status(guarded.admin, "GET", ME) == 401
    assert await me(guarded, second) == "admin"


async def test_a_reset_restores_an_administrator_that_was_deleted(guarded: Guarded) -> None:
    await guarded.group("x")
    admin = (await guarded.run("GET", ME))["id"]
    await guarded.run("DELETE", f"{USERS}/{admin}", status=204)
    assert await guarded.status(guarded.admin, "GET", USERS) == 401
    guarded.admin = await reset_administrator(guarded.ledger)
    assert await guarded.status(guarded.admin, "GET", USERS) == 200


async def test_the_group_of_administrators_cannot_be_deleted(guarded: Guarded) -> None:
    (admins,) = (await guarded.run("GET", f'{GROUPS}?filter=displayName eq "admins"'))["Resources"]
    assert await guarded.status(guarded.admin, "DELETE", f"{GROUPS}/{admins['id']}") == 409


async def test_a_token_that_was_used_expires_and_is_revoked_like_any_other(guarded: Guarded) -> None:
    """A verified token is known from its last request. What it may do must not be."""
    ann = await guarded.user("ann", lifetime_days=1)
    other = await guarded.token("ann", lifetime_days=2)
    await guarded.run("POST", f"{UNITY}/catalogs", {"name": "lake"})
    lake, permissions = f"{UNITY}/catalogs/lake", f"{UNITY}/permissions/catalog/lake"
    states = []
    for change in ({"add": ["BROWSE"]}, {"remove": ["BROWSE"]}, {"add": ["USE CATALOG"]}):
        await guarded.run("PATCH", permissions, {"changes": [{"principal": "ann", **change}]})
        states.append([await guarded.status(ann, "GET", lake) for _ in range(3)])
    assert states == [[200] * 3, [404] * 3, [200] * 3]
    forged = ann[:-1] + ("A" if ann[-1] != "A" else "B")
    assert await guarded.status(forged, "GET", lake) == 401
    guarded.house.clock.advance(25 * 60 * 60 * 1000)
    assert [await guarded.status(token, "GET", lake) for token in (ann, other)] == [401, 200]
    user = guarded.ids["ann"]
    off = {"Operations": [{"op": "replace", "path": "active", "value": False}]}
    await guarded.run("PATCH", f"{CONTROL}/scim2/Users/{user}", off)
    assert await guarded.status(other, "GET", lake) == 401
