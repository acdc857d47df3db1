"""What the requests for objects of all kinds have in common."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from moorage.api.unity.names import address_in, require_new_name
from moorage.api.unity.shapes import Name, SchemaPaging, Text
from moorage.core.callers import Caller
from moorage.core.revisions import Revision
from moorage.core.securables import Kind, Securable, Shelf
from moorage.http import Answer
from moorage.usecases.catalog import browse
from moorage.usecases.ports import Ports


class ObjectUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to an object. A field that is absent or null stays unchanged."""

    comment: Text | None = None
    owner: Name | None = None
    new_name: Name | None = None

    def revision(self) -> Revision:
        new_name = require_new_name(self.new_name)
        return Revision(comment=self.comment, owner=self.owner, new_name=new_name)


async def answer_with_info(
    ports: Ports, securable: Securable, info: Callable[..., msgspec.Struct], *context: object
) -> Answer:
    """The response with the object as `info` renders it, with the names of its parents as the catalog spells them."""
    return Answer.json(info(securable, *await browse.names_above(ports, securable), *context))


async def page_of_schema(ports: Ports, caller: Caller, query: SchemaPaging, shelf: Shelf) -> browse.Page:
    """A page of the objects on one shelf of a schema, ordered by name."""
    schema = address_in(Kind.NAMESPACE, query.catalog_name, query.schema_name)
    return await browse.page(ports, caller, schema, shelf, token=query.page_token, limit=query.limit)
