"""The metastore."""

from __future__ import annotations

import msgspec

from moorage.api.unity.api import unity
from moorage.api.unity.shapes import EXAMPLE_ID
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.usecases.catalog import metastore
from moorage.usecases.ports import Ports


class GetMetastoreSummaryResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The id of the metastore."""

    metastore_id: str


@unity.get(
    "/metastore_summary",
    operation="summary",
    summary="Get a summary of the metastore.",
    tags=("metastores",),
    answer=GetMetastoreSummaryResponse,
    example=Example(answer={"metastore_id": EXAMPLE_ID}),
)
async def get_metastore_summary(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Return the id of the metastore. Delta's clients use it to find the catalog that ratifies a table's commits."""
    return Answer.json(GetMetastoreSummaryResponse(metastore_id=metastore.identify(ports, call.caller)))
