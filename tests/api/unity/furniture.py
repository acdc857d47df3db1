"""The objects that the API examples of the Unity API use."""

from __future__ import annotations

from moorage.api.unity.model_versions import SOURCE
from moorage.api.unity.shapes import EXAMPLE_ID, EXAMPLE_VOLUME_ID
from moorage.core.ids import SecurableId
from moorage.core.recipients import RecipientDetails, RecipientToken, with_details
from moorage.core.securables import Doc, Kind
from moorage.core.storage_credentials import AwsRole, CredentialDetails, LocationDetails, to_doc
from moorage.ledger.port import Ledger
from moorage.server.compose import APIS
from moorage.testing import builders as make
from moorage.usecases.catalog.models import LAST_VERSION, PENDING, STATUS, version_name
from moorage.usecases.catalog.relations import ROUTINE
from moorage.usecases.sharing.recipient_records import MAX_TIME_MS

_IN_SQL = {"routine_body": "SQL", "routine_definition": "(x - 32) / 1.8"}


async def furnish_unity(ledger: Ledger, schema: SecurableId) -> None:
    """Create a table, a volume, two functions and a model with one version, in the schema `sample.sales`."""
    examples = {route.operation: route.example for api in APIS if api.name == "unity" for route in api.routes}
    routine = examples["createFunction"].body["function_info"]
    model = make.create(
        Kind.MODEL, schema, "churn", doc=Doc(location="file:///data/models/churn/", details={LAST_VERSION: 1})
    )
    version = Doc(location="file:///data/models/churn/versions/1/", details={SOURCE: "s3://runs/7", STATUS: PENDING})
    await make.add(
        ledger,
        make.table(schema, "lent", id=SecurableId(EXAMPLE_ID), path="file:///data/lent/"),
        make.create(
            Kind.VOLUME,
            schema,
            "invoices",
            id=SecurableId(EXAMPLE_VOLUME_ID),
            doc=Doc(location="file:///data/invoices/", external=True),
        ),
        make.create(Kind.FUNCTION, schema, "plus_one", doc=Doc(details={ROUTINE: routine})),
        make.create(Kind.FUNCTION, schema, "to_celsius", doc=Doc(details={ROUTINE: {**routine, **_IN_SQL}})),
        model,
        make.create(Kind.MODEL_VERSION, model.id, version_name(1), doc=version),
    )
    await furnish_sharing(ledger)
    await furnish_storage(ledger)


async def furnish_storage(ledger: Ledger) -> None:
    """Create a storage credential, and an external location that uses it."""
    role = AwsRole(role_arn="arn:aws:iam::123456789012:role/lake", external_id=EXAMPLE_ID)
    vault = make.create(Kind.CREDENTIAL, ledger.root, "vault", doc=to_doc(CredentialDetails(aws_role=role), None))
    details = LocationDetails(url="s3://archive/tables/", credential=vault.id)
    archive = make.create(Kind.EXTERNAL_LOCATION, ledger.root, "archive", doc=to_doc(details, None))
    await make.add(ledger, vault, archive)


async def furnish_sharing(ledger: Ledger) -> None:
    """Create a share, and a recipient that may read it."""
    share = make.create(Kind.SHARE, ledger.root, "quarterly")
    token = RecipientToken(id=EXAMPLE_ID, created_at_ms=0, created_by="local", expires_at_ms=MAX_TIME_MS)
    details = RecipientDetails(tokens=(token,), shares=(share.id,))
    recipient = make.create(Kind.RECIPIENT, ledger.root, "partner", doc=with_details(Doc(), details))
    await make.add(ledger, share, recipient)
