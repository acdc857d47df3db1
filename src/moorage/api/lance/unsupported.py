"""Operations of the specification that this catalog does not support. Each is refused with 406 and code 0."""

from __future__ import annotations

from moorage.api.lance.api import Delimited, lance, new_table_of, table_of
from moorage.api.lance.arrow import EXAMPLE_DATA
from moorage.api.lance.bodies import EXAMPLE_NEW_TABLE, Named
from moorage.api.lance.tables import MISSING_TABLE
from moorage.core.errors import CatalogNotFound, InvalidInput, NamespaceNotFound, Unsupported
from moorage.http import Answer, Call, Example
from moorage.usecases.lance import unsupported as lance_unsupported
from moorage.usecases.ports import Ports

routes = lance.section(tags=("data",))


class CreateMaterializedViewRequest(Named, frozen=True, kw_only=True):
    """Any body: the operation is not supported."""


class RefreshMaterializedViewRequest(Named, frozen=True, kw_only=True):
    """Any body: the operation is not supported."""


class AlterTableBackfillColumnsRequest(Named, frozen=True, kw_only=True):
    """Any body: the operation is not supported."""


@routes.post(
    "/v1/materialized_view/{id}/create",
    operation="CreateMaterializedView",
    summary="Not supported: create a materialized view.",
    body=CreateMaterializedViewRequest,
    body_required=False,
    mutation=False,
    errors=(InvalidInput, Unsupported, CatalogNotFound, NamespaceNotFound),
    example=Example(path=EXAMPLE_NEW_TABLE, body={}),
)
async def create_materialized_view(call: Call[CreateMaterializedViewRequest, Delimited], ports: Ports) -> Answer:
    """Refused: this catalog has no materialized views."""
    await lance_unsupported.refuse_view(ports, call.caller, new_table_of(call, call.body.id))
    return Answer.empty()


@routes.post(
    "/v1/materialized_view/{id}/refresh",
    operation="RefreshMaterializedView",
    summary="Not supported: refresh a materialized view.",
    body=RefreshMaterializedViewRequest,
    body_required=False,
    mutation=False,
    errors=(InvalidInput, Unsupported, CatalogNotFound, NamespaceNotFound),
    example=Example(path=EXAMPLE_NEW_TABLE, body={}),
)
async def refresh_materialized_view(call: Call[RefreshMaterializedViewRequest, Delimited], ports: Ports) -> Answer:
    """Refused: this catalog has no materialized views."""
    await lance_unsupported.refuse_view(ports, call.caller, new_table_of(call, call.body.id))
    return Answer.empty()


@routes.post(
    "/v1/table/{id}/backfill_column",
    operation="AlterTableBackfillColumns",
    summary="Not supported: backfill columns.",
    tags=("schema",),
    body=AlterTableBackfillColumnsRequest,
    body_required=False,
    mutation=False,
    errors=(InvalidInput, Unsupported, *MISSING_TABLE),
    example=Example(path=EXAMPLE_DATA, body={}),
)
async def alter_table_backfill_columns(call: Call[AlterTableBackfillColumnsRequest, Delimited], ports: Ports) -> Answer:
    """Refused: this catalog has no virtual columns, so there is nothing to backfill."""
    await lance_unsupported.refuse_backfill(ports, call.caller, table_of(call, call.body.id))
    return Answer.empty()
