"""The principals that the examples of the control API use."""

from __future__ import annotations

from moorage.api.control.scim import EXAMPLE_GROUP_ID, EXAMPLE_SERVICE_ID, EXAMPLE_TOKEN_ID, EXAMPLE_USER_ID
from moorage.core.ids import SecurableId
from moorage.core.principals import Principal, TokenDetails, doc_of
from moorage.core.securables import Kind
from moorage.ledger.port import Ledger
from moorage.testing import builders as make


async def furnish_control(ledger: Ledger) -> None:
    """Create a user with a token, a service principal and a group."""
    ann = doc_of(Principal(groups=("analysts",), display_name="Ann"))
    user, service, group, token = map(
        SecurableId, (EXAMPLE_USER_ID, EXAMPLE_SERVICE_ID, EXAMPLE_GROUP_ID, EXAMPLE_TOKEN_ID)
    )
    await make.add(
        ledger,
        make.create(Kind.USER, ledger.root, "ann@example.com", id=user, doc=ann),
        make.create(Kind.SERVICE_PRINCIPAL, ledger.root, "loader", id=service),
        make.create(Kind.GROUP, ledger.root, "analysts", id=group),
        make.create(Kind.TOKEN, user, token, id=token, doc=doc_of(TokenDetails(digest="0" * 64))),
    )
