"""Storage credentials: keys and roles that open object stores. No response contains a secret."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from moorage.api.errands import errand_of
from moorage.api.unity.api import unity
from moorage.api.unity.names import require_addressable, require_new_name
from moorage.api.unity.shapes import (
    EXAMPLE_ID,
    EXAMPLE_STAMPS,
    NOTHING,
    ForceQuery,
    Name,
    Nothing,
    Paging,
    Stamped,
    Text,
    stamps,
)
from moorage.core.errors import InvalidInput, NameTaken, NotEmpty, SecurableNotFound, Unsupported
from moorage.core.revisions import Revision
from moorage.core.securables import Securable, Shelf
from moorage.core.storage_credentials import AzureServicePrincipal, GcpServiceAccount, S3Endpoint, credential_of
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.usecases.catalog import browse
from moorage.usecases.ports import Ports
from moorage.usecases.storage import storage_credentials
from moorage.usecases.storage.storage_credentials import GivenCredential, credential

routes = unity.section(tags=("storage credentials",))

Purpose = Literal["STORAGE"]
Endpoint = Annotated[str, Meta(description="An http(s):// URL without a path.")]


class AwsIamRoleRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A role that the server assumes, with the key of this credential or the one from its settings."""

    role_arn: Annotated[str, Meta(max_length=2048, description="arn:aws:iam::123456789012:role/name")]


class AwsIamRoleResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The role. Its trust policy must require the external id."""

    role_arn: str
    unity_catalog_iam_arn: str | None
    external_id: str


class AwsAccessKeyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A key of an S3 store. The secret is stored encrypted and never returned."""

    access_key_id: Annotated[str, Meta(min_length=1, max_length=256)]
    secret_access_key: Annotated[str, Meta(min_length=1, max_length=1024)]

    def __repr__(self) -> str:
        """Omits the secret, because this text may be logged."""
        return f"AwsAccessKeyRequest({self.access_key_id})"


class AwsAccessKeyResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The id of the key."""

    access_key_id: str


class S3Store(msgspec.Struct, frozen=True, kw_only=True):
    """Where the store is. Without an endpoint it is Amazon S3."""

    region: Annotated[str | None, Meta(description="Such as eu-north-1; not set: us-east-1.")] = None
    endpoint: Endpoint | None = None
    sts_endpoint: Annotated[Endpoint | None, Meta(description="Where sessions are issued, if elsewhere.")] = None
    path_style: Annotated[bool | None, Meta(description="Put bucket names in the path.")] = None

    def to_endpoint(self) -> S3Endpoint:
        return S3Endpoint(
            region=self.region or S3Endpoint().region,
            endpoint=self.endpoint,
            sts_endpoint=self.sts_endpoint,
            path_style=bool(self.path_style),
        )


class GcpServiceAccountKeyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A key of a Google Cloud service account, from its JSON file. The private key is stored encrypted."""

    email: Annotated[str, Meta(min_length=1, max_length=256, description="`client_email` of the file.")]
    private_key_id: Annotated[str, Meta(min_length=1, max_length=256)]
    private_key: Annotated[str, Meta(min_length=1, max_length=16384, description="In PEM format.")]

    def __repr__(self) -> str:
        """Omits the secret, because this text may be logged."""
        return f"GcpServiceAccountKeyRequest({self.email})"


class GcpServiceAccountKeyResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The service account, and the id of its key."""

    email: str
    private_key_id: str


class AzureServicePrincipalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A service principal of Azure. The client secret is stored encrypted."""

    directory_id: Annotated[str, Meta(description="The UUID of the tenant.")]
    application_id: Annotated[str, Meta(description="The UUID of the application.")]
    client_secret: Annotated[str, Meta(min_length=1, max_length=1024)]

    def __repr__(self) -> str:
        """Omits the secret, because this text may be logged."""
        return f"AzureServicePrincipalRequest({self.application_id})"


class AzureServicePrincipalResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The service principal."""

    directory_id: str
    application_id: str


class _Given(msgspec.Struct, frozen=True, kw_only=True):
    aws_iam_role: AwsIamRoleRequest | None = None
    aws_access_key: AwsAccessKeyRequest | None = None
    gcp_service_account_key: GcpServiceAccountKeyRequest | None = None
    azure_service_principal: AzureServicePrincipalRequest | None = None
    s3_store: S3Store | None = None

    def given(self) -> GivenCredential:
        role, key, store = self.aws_iam_role, self.aws_access_key, self.s3_store
        gcp, azure = self.gcp_service_account_key, self.azure_service_principal
        is_s3 = gcp is None and azure is None
        return GivenCredential(
            role_arn=None if role is None else role.role_arn,
            key_id=None if key is None else key.access_key_id,
            secret=self._secret(),
            store=store.to_endpoint() if store is not None and is_s3 else None,
            gcp=None if gcp is None else GcpServiceAccount(email=gcp.email, private_key_id=gcp.private_key_id),
            azure=None
            if azure is None
            else AzureServicePrincipal(directory_id=azure.directory_id, application_id=azure.application_id),
        )

    def _secret(self) -> str | None:
        if self.gcp_service_account_key is not None:
            return self.gcp_service_account_key.private_key
        if self.azure_service_principal is not None:
            return self.azure_service_principal.client_secret
        return None if self.aws_access_key is None else self.aws_access_key.secret_access_key


class CreateCredentialRequest(_Given, frozen=True, kw_only=True):
    """A new credential: a role, a key, or a key that assumes a role."""

    name: Name
    comment: Text | None = None
    purpose: Purpose | None = None


class UpdateCredentialRequest(_Given, frozen=True, kw_only=True):
    """What to change. Absent fields stay as they are."""

    comment: Text | None = None
    owner: str | None = None
    new_name: Name | None = None


class CredentialInfo(Stamped, frozen=True, kw_only=True):
    """A credential, without its secret."""

    name: str
    full_name: str
    id: str
    purpose: Purpose
    comment: str | None
    aws_iam_role: AwsIamRoleResponse | None
    aws_access_key: AwsAccessKeyResponse | None
    gcp_service_account_key: GcpServiceAccountKeyResponse | None
    azure_service_principal: AzureServicePrincipalResponse | None
    s3_store: S3Store | None


class ListCredentialsResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A page of credentials."""

    credentials: list[CredentialInfo]
    next_page_token: str | None


def credential_info(securable: Securable) -> CredentialInfo:
    details = credential_of(securable)
    role = details.aws_role
    store, gcp, azure = details.s3, details.gcp, details.azure
    return CredentialInfo(
        name=securable.name,
        full_name=securable.name,
        id=securable.id,
        purpose="STORAGE",
        comment=securable.doc.comment,
        aws_iam_role=None
        if role is None
        else AwsIamRoleResponse(role_arn=role.role_arn, unity_catalog_iam_arn=None, external_id=role.external_id),
        aws_access_key=None if details.aws_key_id is None else AwsAccessKeyResponse(access_key_id=details.aws_key_id),
        gcp_service_account_key=None
        if gcp is None
        else GcpServiceAccountKeyResponse(email=gcp.email, private_key_id=gcp.private_key_id),
        azure_service_principal=None
        if azure is None
        else AzureServicePrincipalResponse(directory_id=azure.directory_id, application_id=azure.application_id),
        s3_store=None
        if details.scheme != "s3"
        else S3Store(
            region=store.region, endpoint=store.endpoint, sts_endpoint=store.sts_endpoint, path_style=store.path_style
        ),
        **stamps(securable),
    )


_ROLE = "arn:aws:iam::123456789012:role/lake"
_EXAMPLE: dict[str, Any] = {
    "name": "vault",
    "full_name": "vault",
    "id": EXAMPLE_ID,
    "purpose": "STORAGE",
    "comment": "The archive.",
    "aws_iam_role": {"role_arn": _ROLE, "unity_catalog_iam_arn": None, "external_id": EXAMPLE_ID},
    "aws_access_key": None,
    "gcp_service_account_key": None,
    "azure_service_principal": None,
    "s3_store": {"region": "eu-north-1", "endpoint": None, "sts_endpoint": None, "path_style": False},
    **EXAMPLE_STAMPS,
}
_VAULT = {"name": "vault"}


@routes.post(
    "/credentials",
    operation="createCredential",
    summary="Create a storage credential.",
    body=CreateCredentialRequest,
    answer=CredentialInfo,
    errors=(InvalidInput, NameTaken, Unsupported),
    example=Example(
        body={"name": "lab", "aws_iam_role": {"role_arn": _ROLE}, "s3_store": {"region": "eu-north-1"}},
        answer=_EXAMPLE | {"name": "lab", "full_name": "lab", "comment": None},
    ),
)
async def create_credential(call: Call[CreateCredentialRequest, NoQuery], ports: Ports) -> Answer:
    """Create a credential. Its secret is stored encrypted, and no request returns it."""
    body = call.body
    name = require_addressable(body.name)
    made = await storage_credentials.create_credential(ports, errand_of(call, ports), name, body.given(), body.comment)
    return Answer.json(credential_info(made))


@routes.get(
    "/credentials",
    operation="listCredentials",
    summary="List storage credentials.",
    query=Paging,
    answer=ListCredentialsResponse,
    errors=(InvalidInput,),
    example=Example(answer={"credentials": [_EXAMPLE], "next_page_token": None}),
)
async def list_credentials(call: Call[NoBody, Paging], ports: Ports) -> Answer:
    """List the credentials, ordered by name."""
    query = call.query
    page = await browse.page(ports, call.caller, None, Shelf.CREDENTIAL, token=query.page_token, limit=query.limit)
    found = [credential_info(item) for item in page.items]
    return Answer.json(ListCredentialsResponse(credentials=found, next_page_token=page.next_token))


@routes.get(
    "/credentials/{name}",
    operation="getCredential",
    summary="Get a storage credential.",
    answer=CredentialInfo,
    errors=(InvalidInput, SecurableNotFound),
    example=Example(path=_VAULT, answer=_EXAMPLE),
)
async def get_credential(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Return one credential, without its secret."""
    return Answer.json(credential_info((await browse.get(ports, call.caller, credential(call.params["name"])))[-1]))


@routes.patch(
    "/credentials/{name}",
    operation="updateCredential",
    summary="Update a storage credential.",
    body=UpdateCredentialRequest,
    answer=CredentialInfo,
    errors=(InvalidInput, SecurableNotFound, NameTaken, Unsupported),
    example=Example(path=_VAULT, body={"comment": "The archive."}, answer=_EXAMPLE),
)
async def update_credential(call: Call[UpdateCredentialRequest, NoQuery], ports: Ports) -> Answer:
    """Change a credential. A new key or role holds for all its external locations with the next request."""
    body = call.body
    revision = Revision(comment=body.comment, owner=body.owner, new_name=require_new_name(body.new_name))
    after = await storage_credentials.change_credential(
        ports, errand_of(call, ports), call.params["name"], revision, body.given()
    )
    return Answer.json(credential_info(after))


@routes.delete(
    "/credentials/{name}",
    operation="deleteCredential",
    summary="Delete a storage credential.",
    query=ForceQuery,
    answer=Nothing,
    errors=(InvalidInput, SecurableNotFound, NotEmpty),
    example=Example(path=_VAULT, query={"force": True}, answer={}),
)
async def delete_credential(call: Call[NoBody, ForceQuery], ports: Ports) -> Answer:
    """Delete a credential. It cannot be restored. With force, its external locations open nothing afterwards."""
    await storage_credentials.delete_credential(
        ports, errand_of(call, ports), call.params["name"], force=call.query.force
    )
    return Answer.json(NOTHING)
