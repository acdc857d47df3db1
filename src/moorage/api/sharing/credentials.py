"""Keys for the folder of a table, for clients that read its log themselves."""

from __future__ import annotations

import msgspec

from moorage.api.sharing.api import sharing
from moorage.api.sharing.listings import json_answer
from moorage.api.sharing.tables import ERRORS, EXAMPLE_TABLE, TABLE, malformed, record, table_of
from moorage.core.errors import Unavailable
from moorage.core.vended import Vended, VendedKey, VendedSas, VendedToken
from moorage.http import Answer, Call, Example, NoQuery
from moorage.usecases.ports import Ports
from moorage.usecases.sharing.directory_access import vend_folder

routes = sharing.section(tags=("shared tables",))


class TemporaryTableCredentialRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The location that the key is for. The default is the location of the table."""

    location: str | None = None
    auxiliary_location: str | None = None


class AwsTempCredentials(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A key of an S3 store."""

    access_key_id: str
    secret_access_key: str
    session_token: str


class GcpOauthToken(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A token of Google Cloud."""

    oauth_token: str


class AzureUserDelegationSas(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A shared access signature of Azure."""

    sas_token: str


class TemporaryCredentials(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A key that reads one folder until it expires. It is for one cloud."""

    location: str
    aws_temp_credentials: AwsTempCredentials | None = None
    gcp_oauth_token: GcpOauthToken | None = None
    azure_user_delegation_sas: AzureUserDelegationSas | None = None
    expiration_time: int


class TemporaryTableCredential(msgspec.Struct, frozen=True, kw_only=True):
    """The response with a key."""

    credentials: TemporaryCredentials


def decode_request(raw: bytes) -> TemporaryTableCredentialRequest:
    try:
        return msgspec.json.decode(raw or b"{}", type=TemporaryTableCredentialRequest)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise malformed(str(error)) from None


@routes.post(
    f"{TABLE}/temporary-table-credentials",
    operation="generateSharedTableCredential",
    summary="Get a key for the folder of a table.",
    body=TemporaryTableCredentialRequest,
    body_required=False,
    decode=decode_request,
    answer=TemporaryTableCredential,
    errors=(*ERRORS, Unavailable),
    mutation=False,
    example=Example(
        path=EXAMPLE_TABLE,
        body={},
        answer={
            "credentials": {
                "location": "s3://lake/patients",
                "awsTempCredentials": {"accessKeyId": "ASIA…", "secretAccessKey": "…", "sessionToken": "…"},
                "expirationTime": 1718298900000,
            }
        },
    ),
)
async def generate_credential(call: Call[TemporaryTableCredentialRequest, NoQuery], ports: Ports) -> Answer:
    """Get a key that reads the folder of a table, if the table lists `dir` among its access modes."""
    shared = await table_of(call, ports)
    stated = call.body.location or call.body.auxiliary_location
    location, key = await vend_folder(ports, shared, stated)
    record(call, ports, shared)
    return json_answer(TemporaryTableCredential(credentials=_to_wire(location, key)))


def _to_wire(location: str, key: Vended) -> TemporaryCredentials:
    expires = key.expires_at_ms
    match key:
        case VendedKey():
            aws = AwsTempCredentials(
                access_key_id=key.access_key_id,
                secret_access_key=key.secret_access_key,
                session_token=key.session_token,
            )
            return TemporaryCredentials(location=location, aws_temp_credentials=aws, expiration_time=expires)
        case VendedToken():
            token = GcpOauthToken(oauth_token=key.token)
            return TemporaryCredentials(location=location, gcp_oauth_token=token, expiration_time=expires)
        case VendedSas():
            sas = AzureUserDelegationSas(sas_token=key.sas_token)
            return TemporaryCredentials(location=location, azure_user_delegation_sas=sas, expiration_time=expires)
