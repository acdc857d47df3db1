"""Storage credentials and external locations: what the catalog records of object stores. Pure.

A credential opens a store, and an external location is a folder that a credential opens. The secret of a credential is
recorded only in encrypted form (`sealed`), and no API returns it.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from moorage.core.errors import InvalidInput
from moorage.core.hosts import has_ip_address, is_plain_http_url
from moorage.core.ids import SecurableId
from moorage.core.locations import parse_location, scheme_of
from moorage.core.securables import Doc, Securable

_ROLE: Final = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]{1,512}")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_AZURE: Final = re.compile(r"abfss://[a-z0-9$][a-z0-9-]*@[a-z0-9]{3,24}\.dfs\.core\.windows\.net/.*")
_REGION: Final = re.compile(r"[a-z0-9-]{1,64}")


class AwsRole(msgspec.Struct, frozen=True, kw_only=True):
    """A role that the server assumes. The external id protects the role from other catalogs (confused deputies)."""

    role_arn: str
    external_id: str


class S3Endpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where an S3 store is. Without an endpoint it is Amazon S3."""

    region: str = "us-east-1"
    endpoint: str | None = None
    sts_endpoint: str | None = None
    """Where sessions are issued, if not at the endpoint of the store."""
    path_style: bool = False


class GcpServiceAccount(msgspec.Struct, frozen=True, kw_only=True):
    """A service account of Google Cloud. Its private key is the secret."""

    email: str
    private_key_id: str


class AzureServicePrincipal(msgspec.Struct, frozen=True, kw_only=True):
    """A service principal of Azure. Its client secret is the secret."""

    directory_id: str
    application_id: str


class CredentialDetails(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record of a storage credential. A role without a key is assumed with the key from the server's settings."""

    aws_role: AwsRole | None = None
    aws_key_id: str | None = None
    s3: S3Endpoint = S3Endpoint()
    gcp: GcpServiceAccount | None = None
    azure: AzureServicePrincipal | None = None
    sealed: str | None = None
    """The encrypted secret of the key."""

    @property
    def scheme(self) -> str:
        """The scheme of the locations that it opens."""
        return "gs" if self.gcp is not None else "abfss" if self.azure is not None else "s3"


class LocationDetails(msgspec.Struct, frozen=True, kw_only=True):
    """The record of an external location."""

    url: str
    credential: SecurableId


def credential_of(securable: Securable) -> CredentialDetails:
    return msgspec.convert(securable.doc.details, CredentialDetails)


def location_of(securable: Securable) -> LocationDetails:
    return msgspec.convert(securable.doc.details, LocationDetails)


def to_doc(details: CredentialDetails | LocationDetails, comment: str | None) -> Doc:
    return Doc(comment=comment, details=msgspec.to_builtins(details))


def require_credential(details: CredentialDetails) -> CredentialDetails:
    """Return the details of a credential that can be used, or raise InvalidInput."""
    is_aws = details.aws_role is not None or details.aws_key_id is not None
    if [is_aws, details.gcp is not None, details.azure is not None].count(True) != 1:
        raise InvalidInput(
            "a credential is for one cloud: give aws_iam_role, aws_access_key or both, or gcp_service_account_key, "
            "or azure_service_principal",
            field="aws_iam_role",
        )
    if details.azure is not None:
        for field in ("directory_id", "application_id"):
            if not _UUID.fullmatch(getattr(details.azure, field)):
                raise InvalidInput(f"{field} {getattr(details.azure, field)!r} is not a UUID", field=field)
    if details.aws_role is not None and not _ROLE.fullmatch(details.aws_role.role_arn):
        raise InvalidInput(
            f"role_arn {details.aws_role.role_arn!r} is not the ARN of a role; "
            "it has the form arn:aws:iam::123456789012:role/name",
            field="role_arn",
        )
    if not _REGION.fullmatch(details.s3.region):
        raise InvalidInput(f"region {details.s3.region!r} is not a region, such as eu-north-1", field="region")
    for name in ("endpoint", "sts_endpoint"):
        value = getattr(details.s3, name)
        if value is not None and not is_plain_http_url(value):
            raise InvalidInput(f"{name} {value!r} is not an http(s):// URL without a path", field=name)
    if details.s3.endpoint is not None and not details.s3.path_style and has_ip_address(details.s3.endpoint):
        raise InvalidInput(
            f"endpoint {details.s3.endpoint!r} has an IP address, so path_style must be true", field="path_style"
        )
    return details


def require_location_url(url: str, *, field: str = "url") -> str:
    """The folder of an external location in the form in which locations are compared, or InvalidInput."""
    found = parse_location(url, field=field)
    if scheme_of(found) not in ("s3", "gs", "abfss"):
        raise InvalidInput(
            f"{field}: {url!r} is not in an object store; give an s3://, gs:// or abfss:// URL", field=field
        )
    if scheme_of(found) == "abfss" and not _AZURE.fullmatch(found):
        raise InvalidInput(
            f"{field}: {url!r} does not have the form abfss://container@account.dfs.core.windows.net/folder",
            field=field,
        )
    return found


def require_opens(credential: Securable, url: str, *, field: str = "credential_name") -> None:
    """Raise InvalidInput if the credential is for another cloud than the folder."""
    scheme = credential_of(credential).scheme
    if scheme_of(url) != scheme:
        raise InvalidInput(f"{field}: '{credential.name}' opens {scheme}:// folders, not '{url}'", field=field)
