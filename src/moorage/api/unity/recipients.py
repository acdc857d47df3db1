"""Recipients of shares."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from moorage.api.errands import errand_of
from moorage.api.unity.api import unity
from moorage.api.unity.recipient_bodies import (
    ACTIVATION,
    CreateRecipient,
    ListRecipientsResponse,
    RecipientInfo,
    UpdateRecipient,
    recipient_info,
)
from moorage.api.unity.shapes import EXAMPLE_ID, EXAMPLE_STAMPS, NOTHING, Nothing, Paging
from moorage.api.unity.shares import SELECT, PrivilegeAssignment
from moorage.core.errors import InvalidInput, NameTaken, SecurableNotFound
from moorage.core.securables import Shelf
from moorage.core.shares import require_share_name
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.usecases.catalog import browse, objects
from moorage.usecases.catalog.addresses import recipient
from moorage.usecases.ports import Ports
from moorage.usecases.sharing import permissions, recipient_records

routes = unity.section(tags=("recipients",))

_MAX_GRACE_SECONDS = 366 * 24 * 60 * 60


class RotateToken(msgspec.Struct, frozen=True, kw_only=True):
    """How long the current token stays valid."""

    existing_token_expire_in_seconds: Annotated[
        int, Meta(ge=0, le=_MAX_GRACE_SECONDS, description="0 ends the current token now.")
    ]


class ShareToPrivilegeAssignment(msgspec.Struct, frozen=True, kw_only=True):
    """The privileges of the recipient on one share."""

    share_name: str
    privilege_assignments: list[PrivilegeAssignment]


class RecipientSharePermissions(msgspec.Struct, frozen=True, kw_only=True):
    """The shares of a recipient."""

    permissions_out: list[ShareToPrivilegeAssignment]


_CODE = "01939c1e5a6f7cc19d3e8f5a2b7c4d204f1J3nJ0d0hC7dCwbk1y9T5l0mPq8sRzXvA2uKjYw3E"
_EXAMPLE: dict[str, Any] = {
    "name": "partner",
    "id": EXAMPLE_ID,
    "authentication_type": "TOKEN",
    "comment": "Our partner.",
    "activated": False,
    "activation_url": f"https://lake.example{unity.prefix}{ACTIVATION}/{_CODE}",
    "expiration_time": 1826273732278,
    "tokens": [
        {
            "id": EXAMPLE_ID,
            "activation_url": f"https://lake.example{unity.prefix}{ACTIVATION}/{_CODE}",
            "created_at": 1794737732278,
            "created_by": "local",
            "expiration_time": 1826273732278,
            "updated_at": 1794737732278,
            "updated_by": "local",
        }
    ],
    "ip_access_list": {"allowed_ip_addresses": ["192.0.2.0/24"]},
    "properties_kvpairs": {"properties": {"region": "eu"}},
    "oidc_policy": None,
    **EXAMPLE_STAMPS,
}
_PARTNER = {"name": "partner"}


@routes.post(
    "/recipients",
    operation="createRecipient",
    summary="Create a recipient.",
    body=CreateRecipient,
    answer=RecipientInfo,
    errors=(InvalidInput, NameTaken),
    example=Example(
        body={
            "name": "supplier",
            "comment": "Our partner.",
            "ip_access_list": {"allowed_ip_addresses": ["192.0.2.0/24"]},
            "properties_kvpairs": {"properties": {"region": "eu"}},
        },
        answer=_EXAMPLE | {"name": "supplier"},
    ),
)
async def create_recipient(call: Call[CreateRecipient, NoQuery], ports: Ports) -> Answer:
    """Create a recipient. The response has the activation link: send it to the recipient, who uses it once."""
    body = call.body
    name = require_share_name(body.name)
    created = await recipient_records.create_recipient(ports, errand_of(call, ports), name, body.new())
    return Answer.json(recipient_info(ports, call.caller, created))


@routes.get(
    "/recipients",
    operation="listRecipients",
    summary="List recipients.",
    query=Paging,
    answer=ListRecipientsResponse,
    errors=(InvalidInput,),
    example=Example(answer={"recipients": [_EXAMPLE], "next_page_token": None}),
)
async def list_recipients(call: Call[NoBody, Paging], ports: Ports) -> Answer:
    """List the recipients, ordered by name."""
    query = call.query
    page = await browse.page(ports, call.caller, None, Shelf.RECIPIENT, token=query.page_token, limit=query.limit)
    found = [recipient_info(ports, call.caller, item) for item in page.items]
    return Answer.json(ListRecipientsResponse(recipients=found, next_page_token=page.next_token))


@routes.get(
    "/recipients/{name}",
    operation="getRecipient",
    summary="Get a recipient.",
    answer=RecipientInfo,
    errors=(InvalidInput, SecurableNotFound),
    example=Example(path=_PARTNER, answer=_EXAMPLE),
)
async def get_recipient(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Return one recipient. Its activation link is in the response until it was used."""
    chain = await browse.get(ports, call.caller, recipient(call.params["name"]))
    return Answer.json(recipient_info(ports, call.caller, chain[-1]))


@routes.patch(
    "/recipients/{name}",
    operation="updateRecipient",
    summary="Update a recipient.",
    body=UpdateRecipient,
    answer=RecipientInfo,
    errors=(InvalidInput, SecurableNotFound, NameTaken),
    example=Example(path=_PARTNER, body={"comment": "Our partner."}, answer=_EXAMPLE),
)
async def update_recipient(call: Call[UpdateRecipient, NoQuery], ports: Ports) -> Answer:
    """Change a recipient. Its tokens stay valid, also if its name changes."""
    change = call.body.change()
    after = await recipient_records.change_recipient(ports, errand_of(call, ports), call.params["name"], change)
    return Answer.json(recipient_info(ports, call.caller, after))


@routes.delete(
    "/recipients/{name}",
    operation="deleteRecipient",
    summary="Delete a recipient.",
    answer=Nothing,
    errors=(InvalidInput, SecurableNotFound),
    example=Example(path=_PARTNER, answer={}),
)
async def delete_recipient(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Delete a recipient. Its tokens and its activation link end immediately."""
    await objects.drop(ports, errand_of(call, ports), recipient(call.params["name"]))
    return Answer.json(NOTHING)


@routes.post(
    "/recipients/{name}/rotate-token",
    operation="rotateRecipientToken",
    summary="Rotate the token of a recipient.",
    body=RotateToken,
    answer=RecipientInfo,
    errors=(InvalidInput, SecurableNotFound),
    example=Example(path=_PARTNER, body={"existing_token_expire_in_seconds": 86400}, answer=_EXAMPLE),
)
async def rotate_token(call: Call[RotateToken, NoQuery], ports: Ports) -> Answer:
    """Create a new activation link. The current token stays valid for the given time, so that no reader stops."""
    grace_ms = call.body.existing_token_expire_in_seconds * 1000
    after = await recipient_records.rotate_token(ports, errand_of(call, ports), call.params["name"], grace_ms=grace_ms)
    return Answer.json(recipient_info(ports, call.caller, after))


@routes.get(
    "/recipients/{name}/share-permissions",
    operation="getRecipientSharePermissions",
    summary="Get the shares of a recipient.",
    query=Paging,
    answer=RecipientSharePermissions,
    errors=(InvalidInput, SecurableNotFound),
    example=Example(
        path=_PARTNER,
        answer={
            "permissions_out": [
                {
                    "share_name": "quarterly",
                    "privilege_assignments": [{"principal": "partner", "privileges": [SELECT]}],
                }
            ]
        },
    ),
)
async def get_share_permissions(call: Call[NoBody, Paging], ports: Ports) -> Answer:
    """List the shares that a recipient may read, ordered by name."""
    chain = await browse.get(ports, call.caller, recipient(call.params["name"]))
    assignment = PrivilegeAssignment(principal=chain[-1].name, privileges=[SELECT])
    found = await permissions.shares_of(ports, call.caller, chain[-1].name)
    out = [ShareToPrivilegeAssignment(share_name=each.name, privilege_assignments=[assignment]) for each in found]
    return Answer.json(RecipientSharePermissions(permissions_out=out))
