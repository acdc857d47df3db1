"""The principal of the request itself."""

from __future__ import annotations

from moorage.api.control.api import control
from moorage.api.control.scim import ScimMeta
from moorage.api.control.users import EXAMPLE_USER, User, to_user
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.usecases.identity import principals
from moorage.usecases.ports import Ports


@control.get(
    "/scim2/Me",
    operation="getMe",
    summary="Get the principal of this request.",
    tags=("users",),
    answer=User,
    example=Example(answer=EXAMPLE_USER),
)
async def get_me(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Return the user or service principal whose token the request carries."""
    found = await principals.me(ports, call.caller)
    if found is not None:
        return Answer.json(to_user(found))
    # A server without authentication has one caller, which is not stored.
    meta = ScimMeta(resource_type="User", created="", last_modified="")
    return Answer.json(
        User(id=call.caller.id, user_name=call.caller.name, emails=[], active=True, groups=[], meta=meta)
    )
