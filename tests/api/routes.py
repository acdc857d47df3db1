"""Requests to every route of every API, built from the example of the route."""

from __future__ import annotations

from base64 import b64decode
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx
import msgspec

from moorage.api.console.bodies import EXAMPLE_TABLE
from moorage.api.web import web
from moorage.api.web.cookies import SESSION
from moorage.core.browsers import form_token
from moorage.core.ids import SecurableId
from moorage.core.pipelines import SPEC, Definition, digest_of, to_details
from moorage.core.securables import Doc, Kind
from moorage.core.tokens import new_token
from moorage.http import FORM, Api, NoBody, Route
from moorage.server.compose import APIS
from moorage.testing import builders as make
from tests.api.control.furniture import furnish_control
from tests.api.delta.furniture import furnish_delta
from tests.api.house import House, segment
from tests.api.iceberg.furniture import furnish_iceberg
from tests.api.lance.documents import furnish_documents
from tests.api.lance.furniture import furnish_lance
from tests.api.unity.furniture import furnish_unity


class Endpoint(NamedTuple):
    """A route and the API that it belongs to."""

    api: Api
    route: Route

    def __str__(self) -> str:
        return f"{self.api.name}.{self.route.operation}"


ONLY_REFUSED = {
    "console.addStatistics",
    "console.announceExpiry",
    "console.createCheckpoint",
    "console.createShadow",
    "console.deleteExpired",
    "console.getTableHealth",
    "console.offerRewrite",
    "delta.createDeltaShadow",
    "delta.listDeltaTableFiles",
    "delta.offerDeltaChange",
    "iceberg.signRequest",
    "lance.AlterTransaction",
    "lance.AlterTableBackfillColumns",
    "lance.CreateMaterializedView",
    "lance.RefreshMaterializedView",
    "web.beginLogin",
    "web.finishLogin",
}
"""Operations that this server always refuses, signing, which it refuses for files on local disk, the files of an
external table outside the folders that it may read, requests about rewrites, which need the lease of a worker, and
logins at an identity provider, of which the server has none here."""

EVERY_ROUTE = [Endpoint(api, route) for api in APIS for route in api.routes]
OF_PRINCIPALS = [endpoint for endpoint in EVERY_ROUTE if endpoint.api.authenticate is None]
"""Without the routes of recipients, who need a token. Those are tested in tests/api/sharing."""


def path_of(route: Route, **changes: str) -> str:
    path = route.pattern.path
    for name, value in {**route.example.path, **changes}.items():
        path = path.replace(f"{{{name}:rest}}", value).replace(f"{{{name}}}", segment(value))
    return path


def query_of(route: Route, **changes: Any) -> str:
    return urlencode({**route.example.query, **changes}, doseq=True)


def body_of(route: Route) -> Any:
    return None if route.body is NoBody else route.example.body


async def send(
    house: House,
    route: Route,
    *,
    path: str | None = None,
    query: str | None = None,
    body: Any = msgspec.UNSET,
    raw: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> httpx.Response:
    """The route's example as a request, with parts of it replaced."""
    content = raw
    if route.api == web.name:
        return await send_form(house, route, query=query, raw=raw, headers=headers or {})
    if raw is None and route.body is bytes:
        content = b64decode(route.example.body)
    elif raw is None and route.takes == FORM:
        content = urlencode(route.example.body).encode()
    elif raw is None:
        given = body_of(route) if body is msgspec.UNSET else body
        content = None if given is None and body is msgspec.UNSET else msgspec.json.encode(given)
    target = path or path_of(route)
    text = query_of(route) if query is None else query
    return await house.console.http.request(
        route.verb, f"{target}?{text}" if text else target, content=content, headers=headers
    )


async def send_form(
    house: House, route: Route, *, query: str | None, raw: bytes | None, headers: dict[str, str]
) -> httpx.Response:
    """The example of a page as a browser would send it: with a session, and with the token of its forms."""
    session = new_token(SecurableId("01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4e99"), "x" * 43)
    given = {
        "cookie": f"{SESSION}={session}",
        "sec-fetch-site": "same-origin",
        "x-caller": "ann@example.com",
        **headers,
    }
    text = query_of(route) if query is None else query
    form = dict(body_of(route) or {})
    if "csrf" in form:
        form["csrf"] = form_token(house.ports.page_secret, given["cookie"])
    content = raw if raw is not None else urlencode(form).encode()
    path = path_of(route)
    return await house.console.http.request(
        route.verb, f"{path}?{text}" if text else path, content=content, headers=given
    )


async def furnish(house: House) -> None:
    """Create the objects that the examples use, so that no example is refused for a missing object."""
    ledger = house.ledger
    sample = make.catalog(ledger.root, "sample")
    sales = make.namespace(sample.id, "sales")
    ids = {"orders": EXAMPLE_TABLE["id"], "returns": None}
    tables = [make.table(sales.id, name, id=id) for name, id in ids.items()]
    await make.add(ledger, sample, sales, make.namespace(sales.id, "eu"), *tables)
    await furnish_documents(house.ports, sales.id)
    files = {SPEC: "name: daily", "daily.sql": "CREATE MATERIALIZED VIEW v AS SELECT 1"}
    project = Doc(details=to_details(Definition(files=files, digest=digest_of(files))))
    await make.add(ledger, make.create(Kind.PIPELINE, sales.id, "daily", doc=project))
    await make.add(ledger, *[make.commit(table.id, 0) for table in tables])
    await furnish_unity(ledger, sales.id)
    await furnish_control(ledger)
    await furnish_delta(ledger, sales.id)
    await furnish_iceberg(house.ports, sales.id)
    await furnish_lance(ledger, sales.id)
    for endpoint in EVERY_ROUTE:
        example = endpoint.route.example
        if endpoint.route.operation == "undrop":
            gone = make.create(Kind(example.body["kind"]), ledger.root, "gone", id=example.body["id"])
            await make.add(ledger, gone)
            await make.add(ledger, make.drop(gone.id))
    jobs = {endpoint.route.example.path["job"] for endpoint in EVERY_ROUTE if "job" in endpoint.route.example.path}
    await ledger.append(make.draft(jobs=[make.job("audit", id=id) for id in jobs]))
