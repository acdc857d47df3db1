"""What the requests for one object have in common, whatever its kind."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from moorage.api.unity.names import address_in, speakable
from moorage.api.unity.shapes import Name, SchemaPaging, Text
from moorage.core.callers import Caller
from moorage.core.revisions import Revision
from moorage.core.securables import Kind, Securable, Shelf
from moorage.http import Answer
from moorage.usecases.catalog import browse
from moorage.usecases.ports import Ports


class Revising(msgspec.Struct, frozen=True, kw_only=True):
    """What can be changed about an object; what is absent or null stays as it is."""

    comment: Text | None = None
    owner: Name | None = None
    new_name: Name | None = None

    def revision(self) -> Revision:
        new_name = None if self.new_name is None else speakable(self.new_name, "new_name")
        return Revision(comment=self.comment, owner=self.owner, new_name=new_name)


async def shown(ports: Ports, securable: Securable, info: Callable[..., msgspec.Struct]) -> Answer:
    """The object as `info` writes it, below its parents as the catalog spells them."""
    return Answer.json(info(securable, *await browse.names_above(ports, securable)))


async def page_of_schema(ports: Ports, caller: Caller, query: SchemaPaging, shelf: Shelf) -> browse.Page:
    """Some of what stands on one shelf of a schema, in the order of the names."""
    schema = address_in(Kind.NAMESPACE, query.catalog_name, query.schema_name)
    return await browse.page(ports, caller, schema, shelf, token=query.page_token, limit=query.limit)
