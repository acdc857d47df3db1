"""What the requests for one object have in common, whatever its kind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, ParamSpec

import msgspec

from moorage.api.errands import errand_of
from moorage.api.unity.names import address_in, speakable
from moorage.api.unity.shapes import NOTHING, Name, SchemaPaging, Text
from moorage.core.callers import Caller
from moorage.core.securables import Kind, Securable, Shelf
from moorage.http import Answer, Call
from moorage.usecases.catalog import browse
from moorage.usecases.catalog.revisions import Revision
from moorage.usecases.ports import Ports
from moorage.usecases.settling.settle import Part, settle_one

P = ParamSpec("P")
Prepare = Callable[Concatenate[Ports, Caller, P], Awaitable[Part]]


class Revising(msgspec.Struct, frozen=True, kw_only=True):
    """What can be changed about an object; what is absent or null stays as it is."""

    comment: Text | None = None
    owner: Name | None = None
    new_name: Name | None = None

    def revision(self) -> Revision:
        new_name = None if self.new_name is None else speakable(self.new_name, "new_name")
        return Revision(comment=self.comment, owner=self.owner, new_name=new_name)


async def settled(
    call: Call[Any, Any], ports: Ports, prepare: Prepare[P], *args: P.args, **kwargs: P.kwargs
) -> Securable:
    """Carry out what `prepare` decides for whoever calls; the object afterwards."""
    return await settle_one(ports, errand_of(call, ports), lambda: prepare(ports, call.caller, *args, **kwargs))


async def shown(ports: Ports, securable: Securable, info: Callable[..., msgspec.Struct]) -> Answer:
    """The object as `info` writes it, below its parents as the catalog spells them."""
    return Answer.json(info(securable, *await browse.names_above(ports, securable)))


async def page_of_schema(ports: Ports, caller: Caller, query: SchemaPaging, shelf: Shelf) -> browse.Page:
    """Some of what stands on one shelf of a schema, in the order of the names."""
    schema = address_in(Kind.NAMESPACE, query.catalog_name, query.schema_name)
    return await browse.page(ports, caller, schema, shelf, token=query.page_token, limit=query.limit)


async def dropped(call: Call[Any, Any], ports: Ports, prepare: Prepare[P], *args: P.args, **kwargs: P.kwargs) -> Answer:
    """Drop what `prepare` finds."""
    await settled(call, ports, prepare, *args, **kwargs)
    return Answer.json(NOTHING)
