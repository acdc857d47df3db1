"""A provider that shares Delta tables, and a recipient that reads them, in this process."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from msgspec.structs import force_setattr

from moorage import fresh
from moorage.core.entries import Update
from moorage.core.ids import SecurableId
from moorage.core.recipients import RecipientDetails, RecipientToken, digest_of, token_text, with_details
from moorage.core.securables import Doc, Kind, TableDoc
from moorage.core.shares import ObjectDetails, Partition, PartitionValue, to_doc
from moorage.testing import builders as make
from moorage.testing.builders import HOUR_MS, START_MS
from tests.api.house import House, open_house
from tests.snapshots.log_builder import LogBuilder

PREFIX = "/delta-sharing"
DELTA = {"delta-sharing-capabilities": "responseformat=delta;readerfeatures=deletionvectors,columnmapping"}
SECRET = "s" * 43

Line = dict[str, Any]


def equal(**values: str | None) -> Partition:
    return tuple(PartitionValue(name=name, value=value) for name, value in values.items())


class Recipient:
    """Sends requests with the token of a recipient."""

    def __init__(self, http: httpx.AsyncClient, id: SecurableId) -> None:
        self.http = http
        self.id = id
        self.token = token_text(id, SECRET)

    async def send(self, verb: str, path: str, *, token: str | None = "", **given: Any) -> httpx.Response:
        headers = dict(given.pop("headers", {}))
        if token is not None:
            headers["authorization"] = f"Bearer {token or self.token}"
        return await self.http.request(verb, PREFIX + path, headers=headers, **given)

    async def get(self, path: str, **given: Any) -> httpx.Response:
        return await self.send("GET", path, **given)

    async def post(self, path: str, body: Any = None, **given: Any) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps({} if body is None else body).encode()
        return await self.send("POST", path, content=content, **given)

    async def query(self, table: str = "t", **body: Any) -> httpx.Response:
        return await self.post(f"{at(table)}/query", body)


def at(table: str, schema: str = "sea", share: str = "Fish") -> str:
    return f"/shares/{share}/schemas/{schema}/tables/{table}"


def lines_of(answer: httpx.Response, status: int = 200) -> list[Line]:
    """The lines of a response, which must be split by every client in the same way."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson; charset=utf-8"
    assert answer.text.endswith("\n")
    texts = answer.text.splitlines()
    assert texts == answer.text.removesuffix("\n").split("\n")
    return [json.loads(text) for text in texts]


def files_of(lines: Sequence[Line], kind: str = "file") -> list[Line]:
    return [line[kind] for line in lines if kind in line]


def error_of(answer: httpx.Response, status: int = 400, code: str | None = None) -> str:
    """The message of an error, which must have this status and code."""
    assert answer.status_code == status, f"{answer.status_code}: {answer.text}"
    body = answer.json()
    assert set(body) == {"errorCode", "message"}
    assert code is None or body["errorCode"] == code, body
    return str(body["message"])


class Provider:
    """A share `Fish` with a schema `sea`, granted to one recipient. Tables are external, and written by hand."""

    def __init__(self, house: House, folder: Path) -> None:
        self.house = house
        self.ports = house.ports
        self.folder = folder
        self.catalog = make.catalog(house.ledger.root, "lake")
        self.schema = make.namespace(self.catalog.id, "sea")
        self.share = make.create(Kind.SHARE, house.ledger.root, "Fish")
        self.other = make.create(Kind.SHARE, house.ledger.root, "other")
        self.recipient = Recipient(house.console.http, fresh.securable_id())
        self.stranger = Recipient(house.console.http, fresh.securable_id())

    async def build(self) -> Provider:
        await make.add(
            self.house.ledger,
            self.catalog,
            self.schema,
            self.share,
            self.other,
            self._recipient("r", self.recipient, self.share.id),
            self._recipient("s", self.stranger, self.other.id),
        )
        return self

    def _recipient(self, name: str, recipient: Recipient, *shares: SecurableId) -> Any:
        doc = with_details(Doc(), self.details(recipient, *shares))
        return make.create(Kind.RECIPIENT, self.house.ledger.root, name, id=recipient.id, doc=doc)

    @staticmethod
    def details(recipient: Recipient, *shares: SecurableId, **given: Any) -> RecipientDetails:
        token = RecipientToken(
            id="1",
            created_at_ms=START_MS,
            created_by="a",
            expires_at_ms=START_MS + 24 * HOUR_MS,
            digest=digest_of(recipient.token),
        )
        return RecipientDetails(**{"tokens": (token,), "shares": shares, **given})

    async def change_recipient(self, details: RecipientDetails) -> None:
        await make.add(self.house.ledger, Update(id=self.recipient.id, doc=with_details(Doc(), details)))

    def log(self, name: str = "t") -> LogBuilder:
        return LogBuilder(self.folder / name)

    async def offer(
        self, name: str = "t", *, schema: str = "sea", history: bool = True, location: str | None = None, **given: Any
    ) -> SecurableId:
        """Register the table in a folder and share it."""
        location = location or f"file://{self.folder}/{name}/"
        doc = Doc(location=location, table=TableDoc(format="delta", managed=False))
        table = make.table(self.schema.id, name, path=location, doc=doc)
        await make.add(self.house.ledger, table)
        await self.share_table(f"{schema}.{name}", table.id, history=history, **given)
        return table.id

    async def share_table(self, name: str, table: SecurableId, **given: Any) -> SecurableId:
        details = ObjectDetails(target=table, name=name, **given)
        shared = make.create(Kind.SHARED_OBJECT, self.share.id, name, doc=to_doc(details))
        await make.add(self.house.ledger, shared)
        return shared.id


@asynccontextmanager
async def open_provider(folder: Path, **settings: Any) -> AsyncIterator[Provider]:
    external = folder / "external"
    external.mkdir()
    async with open_house(folder / "data", **{**settings, "external_folder": external}) as house:
        force_setattr(house.ports, "public_url", str(house.console.http.base_url).rstrip("/"))
        yield await Provider(house, external).build()
