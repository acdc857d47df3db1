"""Recipients: their links, their tokens and the addresses they may come from, on SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moorage.core.credentials import Credential, CredentialScheme
from moorage.core.errors import Forbidden, Unauthenticated
from moorage.core.recipients import Recipient
from moorage.ledger.postgres import PostgresLedger
from moorage.usecases.sharing.recipients import authenticate
from tests.api.house import House, done, open_house
from tests.api.unity.unity import Unity, invalid, refused

ISSUER = "https://login.example"
DAY_MS = 24 * 60 * 60 * 1000
SECRET = 43
"""The length of the secret at the end of a token. It may contain the `_` that separates it from the rest."""


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
async def house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[House]:
    ledger = None
    if request.param == "postgres":
        ledger = await PostgresLedger.open(request.getfixturevalue("database_url"))
    async with open_house(
        tmp_path / "data", ledger=ledger, public_url="https://lake.example", oidc_issuers=ISSUER
    ) as house:
        yield house


@pytest.fixture
def uc(house: House) -> Unity:
    return Unity(house.console.http)


async def create(uc: Unity, name: str = "ann", **given: Any) -> dict[str, Any]:
    return dict(done(await uc.post("/recipients", {"name": name, **given})))


def path_of(recipient: dict[str, Any]) -> str:
    """The path of the recipient's activation link, below the prefix of the API."""
    url = str(recipient["tokens"][-1]["activation_url"])
    assert url.startswith("https://lake.example/api/2.1/unity-catalog/public/data_sharing_activation/")
    return url.removeprefix("https://lake.example/api/2.1/unity-catalog")


async def activate(uc: Unity, recipient: dict[str, Any]) -> dict[str, Any]:
    return dict(done(await uc.get(path_of(recipient))))


async def who(house: House, token: str | None, address: str = "192.0.2.7") -> Recipient:
    credential = None if token is None else Credential(CredentialScheme.RECIPIENT, token)
    return await authenticate(house.ports, credential, address)


async def test_a_recipient_gets_its_profile_by_the_activation_link(house: House, uc: Unity) -> None:
    made = await create(uc, comment="c")
    assert (made["name"], made["authentication_type"], made["comment"]) == ("ann", "TOKEN", "c")
    assert (made["activated"], len(made["tokens"])) == (False, 1)
    assert made["activation_url"] == made["tokens"][0]["activation_url"]
    assert made["tokens"][0]["expiration_time"] == made["expiration_time"] == house.clock() + 365 * DAY_MS
    profile = await activate(uc, made)
    assert profile.keys() == {"shareCredentialsVersion", "endpoint", "bearerToken", "expirationTime"}
    assert profile["shareCredentialsVersion"] == 1
    assert profile["endpoint"] == "https://lake.example/delta-sharing"
    assert profile["expirationTime"].endswith("Z")
    found = await who(house, profile["bearerToken"])
    assert (found.id, found.name, found.shares) == (made["id"], "ann", frozenset())
    after = done(await uc.get("/recipients/ANN"))
    assert (after["activated"], after["activation_url"], after["tokens"][0]["activation_url"]) == (True, None, None)


async def test_a_link_works_once_even_for_many_at_once(house: House, uc: Unity) -> None:
    made = await create(uc)
    answers = await asyncio.gather(*[uc.get(path_of(made)) for _ in range(8)])
    assert sorted(answer.status_code for answer in answers) == [200] + [404] * 7
    assert "was used already" in refused(await uc.get(path_of(made)), 404, "NOT_FOUND")
    won = next(answer.json() for answer in answers if answer.status_code == 200)
    await who(house, won["bearerToken"])


async def test_a_browser_gets_a_page_that_uses_nothing_up(uc: Unity) -> None:
    made = await create(uc, "ann<b>")
    url = uc.prefix + path_of(made)
    page = await uc.http.get(url, headers={"accept": "text/html,application/xhtml+xml"})
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["cache-control"] == "no-store"
    assert "ann&lt;b&gt;" in page.text
    assert '<form method="post">' in page.text
    file = await uc.http.post(url)
    assert file.headers["content-disposition"] == 'attachment; filename="config.share"'
    assert file.json()["bearerToken"].startswith("moor_")
    assert (await uc.http.get(url, headers={"accept": "text/html"})).status_code == 404


async def test_the_whole_link_is_accepted_in_place_of_its_code(uc: Unity) -> None:
    made = await create(uc)
    whole = str(made["activation_url"])
    encoded = whole.replace(":", "%3A").replace("/", "%2F")
    for link in (whole, encoded):
        assert done(await uc.get(f"/public/data_sharing_activation_info/{link}")) == {}
    assert done(await uc.get(f"/public/data_sharing_activation/{whole}"))["bearerToken"]
    refused(await uc.get(f"/public/data_sharing_activation_info/{whole}"), 404, "NOT_FOUND")


@pytest.mark.parametrize("change", ["first", "last", "short", "other id", "empty"])
async def test_a_forged_link_reveals_nothing(uc: Unity, change: str) -> None:
    made = await create(uc)
    code = path_of(made).rpartition("/")[2]
    forged = {
        "first": ("0" if code[0] != "0" else "1") + code[1:],
        "last": code[:-1] + ("A" if code[-1] != "A" else "B"),
        "short": code[:-1],
        "other id": "0" * 32 + code[32:],
        "empty": "-",
    }[change]
    message = refused(await uc.get(f"/public/data_sharing_activation/{forged}"), 404, "NOT_FOUND")
    assert message == "this activation link does not exist; ask the provider of the share for a new one"
    await activate(uc, made)


async def test_no_secret_is_in_the_ledger_or_in_answers(house: House, uc: Unity) -> None:
    made = await create(uc)
    code = path_of(made).rpartition("/")[2]
    token = (await activate(uc, made))["bearerToken"]
    entries = msgspec.json.encode(await house.ledger.entries(0, limit=1000)).decode()
    shown = (await uc.get("/recipients/ann")).text + (await uc.get("/recipients")).text
    for secret in (code[32:], token[-SECRET:]):
        assert secret not in entries
        assert secret not in shown
    feed = (await house.console.get("/feed")).text
    assert '"activated_at_ms"' in feed
    assert '"digest"' not in feed


async def test_forged_and_tampered_tokens_are_refused_alike(house: House, uc: Unity) -> None:
    token = (await activate(uc, await create(uc)))["bearerToken"]
    other = (await activate(uc, await create(uc, "bob")))["bearerToken"]
    head, secret = token[:-SECRET], token[-SECRET:]
    messages = set()
    for wrong in (
        token[:-1] + ("A" if token[-1] != "A" else "B"),
        other[:-SECRET] + secret,
        head + other[-SECRET:],
        f"moor_{'0' * 32}_{secret}",
        f"moor_{house.ledger.root.replace('-', '')}_{secret}",
        token + " ",
        token.upper(),
        "dapi123",
        "",
        "é",
    ):
        with pytest.raises(Unauthenticated) as error:
            await who(house, wrong)
        messages.add(error.value.message)
    assert len(messages) == 1
    with pytest.raises(Unauthenticated, match="no token"):
        await who(house, None)


async def test_a_token_expires(house: House, uc: Unity) -> None:
    made = await create(uc, expiration_time=house.clock() + DAY_MS)
    token = (await activate(uc, made))["bearerToken"]
    house.clock.advance(DAY_MS - 1)
    await who(house, token)
    house.clock.advance(1)
    with pytest.raises(Unauthenticated, match="expired"):
        await who(house, token)
    done(await uc.patch("/recipients/ann", {"expiration_time": house.clock() + DAY_MS}))
    await who(house, token)


async def test_an_unused_link_expires_with_its_token(house: House, uc: Unity) -> None:
    made = await create(uc, expiration_time=house.clock() + DAY_MS)
    house.clock.advance(DAY_MS)
    assert "has expired" in refused(await uc.get(path_of(made)), 404, "NOT_FOUND")


async def test_a_rotation_keeps_two_tokens_valid(house: House, uc: Unity) -> None:
    first = (await activate(uc, await create(uc)))["bearerToken"]
    rotated = done(await uc.post("/recipients/ann/rotate-token", {"existing_token_expire_in_seconds": 60}))
    assert len(rotated["tokens"]) == 2
    assert rotated["tokens"][0]["expiration_time"] == house.clock() + 60_000
    assert rotated["expiration_time"] == house.clock() + 365 * DAY_MS
    second = (await activate(uc, rotated))["bearerToken"]
    await who(house, first)
    await who(house, second)
    again = await uc.post("/recipients/ann/rotate-token", {"existing_token_expire_in_seconds": 60})
    assert "has 2 valid tokens" in invalid(again)
    house.clock.advance(60_000)
    with pytest.raises(Unauthenticated, match="expired"):
        await who(house, first)
    await who(house, second)
    rotated = done(await uc.post("/recipients/ann/rotate-token", {"existing_token_expire_in_seconds": 0}))
    assert len(rotated["tokens"]) == 1
    with pytest.raises(Unauthenticated, match="not valid"):
        await who(house, second)


async def test_a_rotation_ends_a_link_that_was_not_used(uc: Unity) -> None:
    made = await create(uc)
    rotated = done(await uc.post("/recipients/ann/rotate-token", {"existing_token_expire_in_seconds": 60}))
    refused(await uc.get(path_of(made)), 404, "NOT_FOUND")
    await activate(uc, rotated)


async def test_a_deleted_recipient_cannot_read(house: House, uc: Unity) -> None:
    made = await create(uc)
    token = (await activate(uc, made))["bearerToken"]
    unused = await create(uc, "bob")
    for name in ("ann", "bob"):
        done(await uc.delete(f"/recipients/{name}"))
    with pytest.raises(Unauthenticated, match="not valid"):
        await who(house, token)
    refused(await uc.get(path_of(unused)), 404, "NOT_FOUND")
    await create(uc)
    with pytest.raises(Unauthenticated, match="not valid"):
        await who(house, token)


async def test_a_renamed_recipient_keeps_its_tokens_and_shares(house: House, uc: Unity) -> None:
    token = (await activate(uc, await create(uc)))["bearerToken"]
    share = done(await uc.post("/shares", {"name": "fish"}))
    done(await uc.patch("/shares/fish/permissions", {"changes": [{"principal": "ann", "add": ["SELECT"]}]}))
    after = done(await uc.patch("/recipients/ann", {"new_name": "anne", "comment": "c"}))
    assert (after["name"], after["comment"]) == ("anne", "c")
    found = await who(house, token)
    assert (found.name, found.shares) == ("anne", frozenset({share["id"]}))


async def test_requests_from_other_addresses_are_refused(house: House, uc: Unity) -> None:
    made = await create(uc, ip_access_list={"allowed_ip_addresses": ["192.0.2.0/24", "2001:db8::1"]})
    assert made["ip_access_list"] == {"allowed_ip_addresses": ["192.0.2.0/24", "2001:db8::1"]}
    token = (await activate(uc, made))["bearerToken"]
    await who(house, token, "192.0.2.9")
    await who(house, token, "2001:db8::1")
    with pytest.raises(Forbidden, match=r"not allowed from 198\.51\.100\.1"):
        await who(house, token, "198.51.100.1")
    done(await uc.patch("/recipients/ann", {"ip_access_list": {"allowed_ip_addresses": []}}))
    await who(house, token, "198.51.100.1")


async def test_properties_replace_each_other(house: House, uc: Unity) -> None:
    made = await create(uc, properties_kvpairs={"properties": {"region": "eu"}})
    token = (await activate(uc, made))["bearerToken"]
    assert (await who(house, token)).properties == {"region": "eu"}
    after = done(await uc.patch("/recipients/ann", {"properties_kvpairs": {"properties": {"team": "x"}}}))
    assert after["properties_kvpairs"] == {"properties": {"team": "x"}}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"name": "a b"}, "contains a dot, a space or a slash"),
        ({"comment": "c" * 65_537}, "at most 65536"),
        ({"expiration_time": 1}, "is not in the future"),
        ({"expiration_time": 2**53 - 1}, "is not in the future"),
        ({"ip_access_list": {"allowed_ip_addresses": ["x"]}}, "is not an IP address or network"),
        ({"properties_kvpairs": {"properties": {"k": "v" * 1_001}}}, "at most 1000"),
        ({"authentication_type": "DATABRICKS"}, "authentication_type"),
        ({"authentication_type": "OIDC_FEDERATION"}, "oidc_policy is required"),
        ({"oidc_policy": {"issuer": ISSUER, "subject": "s"}}, "oidc_policy is only for"),
    ],
)
async def test_a_wrong_recipient_is_refused(uc: Unity, given: dict[str, Any], words: str) -> None:
    assert words in invalid(await uc.post("/recipients", {"name": "ann", **given}))
    assert done(await uc.get("/recipients"))["recipients"] == []


async def test_a_recipient_of_an_identity_provider_has_no_token(uc: Unity) -> None:
    policy = {"issuer": ISSUER, "subject": "reader", "audiences": ["lake"]}
    made = await create(uc, authentication_type="OIDC_FEDERATION", oidc_policy=policy)
    assert made["oidc_policy"] == {**policy, "subject_claim": "sub"}
    assert (made["tokens"], made["activation_url"]) == ([], None)
    answer = await uc.post("/recipients/ann/rotate-token", {"existing_token_expire_in_seconds": 0})
    assert "authenticates by OIDC_FEDERATION" in invalid(answer)
    after = done(await uc.patch("/recipients/ann", {"oidc_policy": {**policy, "subject": "other"}}))
    assert after["oidc_policy"]["subject"] == "other"


class NoManage:
    """Everything but MANAGE, for a caller that may look but not rotate."""

    def __init__(self, access: Any) -> None:
        self.authenticates = True
        self.authenticate = access.authenticate

    def allow(self, caller: Any, privilege: str, chain: Any) -> bool:
        return privilege != "manage"


async def test_a_caller_who_may_not_rotate_a_token_does_not_see_the_link(house: House, uc: Unity) -> None:
    made = await create(uc)
    assert path_of(made)
    msgspec.structs.force_setattr(house.ports, "access", NoManage(house.ports.access))
    shown = done(await uc.get("/recipients/ann"))
    assert (shown["activation_url"], shown["tokens"][0]["activation_url"]) == (None, None)
    assert all(each["activation_url"] is None for each in done(await uc.get("/recipients"))["recipients"])


async def test_a_retried_creation_returns_the_same_link(uc: Unity) -> None:
    first, second = [await uc.post("/recipients", {"name": "ann"}, key="k") for _ in range(2)]
    assert done(first) == done(second)
