"""Recipients on the wire, with the names that Databricks uses."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from moorage.api.unity.api import unity
from moorage.api.unity.shapes import Millis, Name, Properties, Stamped, Text, stamps
from moorage.core.callers import Caller
from moorage.core.networks import parse_addresses
from moorage.core.recipients import (
    MAX_COMMENT,
    OidcPolicy,
    RecipientToken,
    details_of,
    require_properties,
    require_text,
)
from moorage.core.revisions import Revision
from moorage.core.securables import Securable
from moorage.core.shares import require_share_name
from moorage.usecases.ports import Ports
from moorage.usecases.sharing.activation import links_of
from moorage.usecases.sharing.recipient_records import NewRecipient, RecipientChange

AuthenticationType = Literal["TOKEN", "OIDC_FEDERATION"]
ACTIVATION = "/public/data_sharing_activation"
ACTIVATION_INFO = "/public/data_sharing_activation_info"


class IpAccessList(msgspec.Struct, frozen=True, kw_only=True):
    """The addresses and networks that requests may come from. Empty: any."""

    allowed_ip_addresses: list[str] | None = None

    def addresses(self) -> tuple[str, ...]:
        return parse_addresses(self.allowed_ip_addresses or [], "allowed_ip_addresses")


class PropertiesKvPairs(msgspec.Struct, frozen=True, kw_only=True):
    """Properties of a recipient. Partition filters can refer to them."""

    properties: Properties | None = None


class OidcPolicyInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Which tokens of an identity provider authenticate the recipient."""

    issuer: Annotated[str, Meta(min_length=1, max_length=2000, description="The issuer, an https URL.")]
    subject_claim: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    subject: Annotated[str, Meta(min_length=1, max_length=255)]
    audiences: list[str] | None = None

    def policy(self) -> OidcPolicy:
        return OidcPolicy(
            issuer=self.issuer,
            subject_claim=self.subject_claim or "sub",
            subject=self.subject,
            audiences=tuple(self.audiences or ()),
        )


class CreateRecipient(msgspec.Struct, frozen=True, kw_only=True):
    """The recipient to create."""

    name: Name
    authentication_type: AuthenticationType | None = None
    comment: Text | None = None
    expiration_time: Annotated[
        Millis | None, Meta(description="When the token expires. The default is in one year.")
    ] = None
    ip_access_list: IpAccessList | None = None
    properties_kvpairs: PropertiesKvPairs | None = None
    oidc_policy: OidcPolicyInfo | None = None

    def new(self) -> NewRecipient:
        properties = {} if self.properties_kvpairs is None else self.properties_kvpairs.properties or {}
        return NewRecipient(
            comment=require_text(self.comment, "comment", MAX_COMMENT),
            properties=require_properties(properties, "properties"),
            authentication=self.authentication_type or "TOKEN",
            expires_at_ms=self.expiration_time,
            addresses=() if self.ip_access_list is None else self.ip_access_list.addresses(),
            oidc=None if self.oidc_policy is None else self.oidc_policy.policy(),
        )


class UpdateRecipient(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to a recipient. A field that is absent or null stays unchanged."""

    comment: Text | None = None
    owner: Name | None = None
    new_name: Name | None = None
    expiration_time: Annotated[Millis | None, Meta(description="When the newest token expires.")] = None
    ip_access_list: Annotated[IpAccessList | None, Meta(description="Replaces the whole list.")] = None
    properties_kvpairs: Annotated[PropertiesKvPairs | None, Meta(description="Replaces all properties.")] = None
    oidc_policy: OidcPolicyInfo | None = None

    def change(self) -> RecipientChange:
        given = self.properties_kvpairs
        return RecipientChange(
            revision=Revision(
                comment=require_text(self.comment, "comment", MAX_COMMENT),
                owner=self.owner,
                properties=None if given is None else require_properties(given.properties or {}, "properties"),
                new_name=None if self.new_name is None else require_share_name(self.new_name, "new_name"),
            ),
            expires_at_ms=self.expiration_time,
            addresses=None if self.ip_access_list is None else self.ip_access_list.addresses(),
            oidc=None if self.oidc_policy is None else self.oidc_policy.policy(),
        )


class RecipientTokenInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A token of a recipient. The token itself is in the profile that the activation link returns, once."""

    id: str
    activation_url: Annotated[str | None, Meta(description="Null after the link was used.")]
    created_at: Millis
    created_by: str
    expiration_time: Millis
    updated_at: Millis
    updated_by: str


class RecipientInfo(Stamped, frozen=True, kw_only=True):
    """A recipient."""

    name: str
    id: str
    authentication_type: AuthenticationType
    comment: str | None
    activated: Annotated[bool, Meta(description="Whether an activation link was used.")]
    activation_url: Annotated[str | None, Meta(description="The link that was not used yet.")]
    expiration_time: Annotated[Millis | None, Meta(description="When the newest token expires.")]
    tokens: list[RecipientTokenInfo]
    ip_access_list: IpAccessList | None
    properties_kvpairs: PropertiesKvPairs | None
    oidc_policy: OidcPolicyInfo | None


class ListRecipientsResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A page of recipients. Without a token it is the last page."""

    recipients: list[RecipientInfo]
    next_page_token: str | None


def recipient_info(ports: Ports, caller: Caller, recipient: Securable) -> RecipientInfo:
    """A recipient on the wire, with the activation links that the caller may see."""
    details = details_of(recipient)
    links = links_of(ports, caller, recipient)
    tokens = [_token_info(ports, token, links.get(token.id)) for token in details.tokens]
    policy = details.oidc
    return RecipientInfo(
        name=recipient.name,
        id=recipient.id,
        authentication_type=details.authentication,
        comment=recipient.doc.comment,
        activated=any(token.is_activated for token in details.tokens),
        activation_url=next((token.activation_url for token in reversed(tokens) if token.activation_url), None),
        expiration_time=tokens[-1].expiration_time if tokens else None,
        tokens=tokens,
        ip_access_list=IpAccessList(allowed_ip_addresses=list(details.addresses)) if details.addresses else None,
        properties_kvpairs=PropertiesKvPairs(properties=recipient.doc.properties) if recipient.doc.properties else None,
        oidc_policy=None
        if policy is None
        else OidcPolicyInfo(
            issuer=policy.issuer,
            subject_claim=policy.subject_claim,
            subject=policy.subject,
            audiences=list(policy.audiences),
        ),
        **stamps(recipient),
    )


def _token_info(ports: Ports, token: RecipientToken, code: str | None) -> RecipientTokenInfo:
    return RecipientTokenInfo(
        id=token.id,
        activation_url=None if code is None else f"{ports.public_url}{unity.prefix}{ACTIVATION}/{code}",
        created_at=token.created_at_ms,
        created_by=token.created_by,
        expiration_time=token.expires_at_ms,
        updated_at=token.activated_at_ms or token.created_at_ms,
        updated_by=token.created_by,
    )
