"""Activation links of recipients. The link is the credential: the client that has it gets the profile, once."""

from __future__ import annotations

from html import escape
from typing import Any, Final

from moorage.api.unity.api import unity
from moorage.api.unity.recipient_bodies import ACTIVATION, ACTIVATION_INFO
from moorage.api.unity.shapes import NOTHING, Nothing
from moorage.core.callers import Caller
from moorage.core.errors import SecurableNotFound
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.http.answers import Header
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.sharing.activation import activate, find_activation
from moorage.usecases.sharing.profiles import Profile

routes = unity.section(tags=("recipients",))

_HEADERS: Final[tuple[Header, ...]] = ((b"cache-control", b"no-store"),)
_HTML: Final[tuple[Header, ...]] = (
    (b"content-type", b"text/html; charset=utf-8"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; form-action 'self'"),
    *_HEADERS,
)
_DOWNLOAD: Final[Header] = (b"content-disposition", b'attachment; filename="config.share"')

_PAGE: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Delta Sharing: profile of {recipient}</title>
<style>body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 36em; margin: 4em auto; padding: 0 1em }}
button {{ font: inherit; padding: .5em 1em }}</style>
<h1>Profile of {recipient}</h1>
<p>This link gives you the profile file with which you read the data that is shared with you. It works once: save the
file, keep it secret, and do not forward this link.</p>
<form method="post"><button>Download the profile</button></form>
</html>
"""
_EXAMPLE: Final[dict[str, Any]] = {
    "shareCredentialsVersion": 1,
    "endpoint": "https://lake.example/delta-sharing",
    "bearerToken": "moor_01939c1e5a6f7cc19d3e8f5a2b7c4d20_4f1J3nJ0d0hC7dCwbk1y9T5l0mPq8sRzXvA2uKjYw3E",
    "expirationTime": "2027-11-15T10:15:32.278Z",
}
_CODE: Final = "01939c1e5a6f7cc19d3e8f5a2b7c4d204f1J3nJ0d0hC7dCwbk1y9T5l0mPq8sRzXvA2uKjYw3E"


@routes.get(
    f"{ACTIVATION}/{{code:rest}}",
    operation="retrieveToken",
    summary="Get a profile.",
    answer=Profile,
    errors=(SecurableNotFound,),
    example=Example(path={"code": _CODE}, answer=_EXAMPLE),
    public=True,
    mutation=True,
    keyed=False,
)
async def retrieve_token(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Use an activation link: return the profile of the recipient, with its new token. A link works once.

    A browser gets a page with a button and uses nothing up, so that a program that checks links in mails cannot.
    """
    code = _code(call)
    if "text/html" in (call.header("accept") or ""):
        found = await find_activation(ports, code)
        return Answer(200, _PAGE.format(recipient=escape(found.recipient.name)).encode(), _HTML)
    return Answer.json(await _activated(call, ports, code), headers=_HEADERS)


@routes.post(
    f"{ACTIVATION}/{{code:rest}}",
    operation="downloadToken",
    summary="Get a profile as a file.",
    answer=Profile,
    errors=(SecurableNotFound,),
    example=Example(path={"code": _CODE}, answer=_EXAMPLE),
    public=True,
    keyed=False,
)
async def download_token(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Use an activation link from its page in a browser: the profile is downloaded as a file."""
    return Answer.json(await _activated(call, ports, _code(call)), headers=(_DOWNLOAD, *_HEADERS))


@routes.get(
    f"{ACTIVATION_INFO}/{{code:rest}}",
    operation="getActivationUrlInfo",
    summary="Check an activation link.",
    answer=Nothing,
    errors=(SecurableNotFound,),
    example=Example(path={"code": _CODE}, answer={}),
    public=True,
)
async def get_activation_url_info(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Check whether an activation link can be used, without using it."""
    await find_activation(ports, _code(call))
    return Answer.json(NOTHING)


def _code(call: Call[Any, Any]) -> str:
    """The code of the link. Databricks' SDK sends the whole link in the path."""
    return call.params["code"].rstrip("/").rpartition("/")[2]


async def _activated(call: Call[Any, Any], ports: Ports, code: str) -> Profile:
    recipient = (await find_activation(ports, code)).recipient
    caller = Caller(id=recipient.id, name=recipient.name)  # the feed shows that the recipient did it
    return await activate(ports, Errand(caller=caller, api=call.route.api, request=call.request_id), code)
