"""Create, change and delete storage credentials. A secret is encrypted before it is recorded, and never returned."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from moorage.core.callers import SYSTEM, Caller
from moorage.core.entries import Drop, Live, RevisionIs, Update
from moorage.core.errors import InvalidInput, NotEmpty
from moorage.core.ids import SecurableId
from moorage.core.privileges import Privilege
from moorage.core.revisions import Revision
from moorage.core.securables import Kind, Securable, Shelf
from moorage.core.storage_credentials import (
    AwsRole,
    AzureServicePrincipal,
    CredentialDetails,
    GcpServiceAccount,
    S3Endpoint,
    credential_of,
    location_of,
    require_credential,
    to_doc,
)
from moorage.usecases.catalog.addresses import Address, find_by_id, reach
from moorage.usecases.catalog.objects import prepare_create, prepare_drop
from moorage.usecases.catalog.revisions import revise_found
from moorage.usecases.catalog.staging import creation_in
from moorage.usecases.catalog.walks import children
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle, settle_one


class GivenCredential(msgspec.Struct, frozen=True, kw_only=True):
    """What a request states about a credential. None keeps the current value."""

    role_arn: str | None = None
    key_id: str | None = None
    secret: str | None = None
    store: S3Endpoint | None = None
    gcp: GcpServiceAccount | None = None
    azure: AzureServicePrincipal | None = None

    @property
    def has_key(self) -> bool:
        return self.key_id is not None or self.gcp is not None or self.azure is not None

    def __repr__(self) -> str:
        """Omits the secret, because this text may be logged."""
        return f"GivenCredential({self.role_arn}, {self.key_id}, {self.store})"


def credential(name: str) -> Address:
    return Address(Kind.CREDENTIAL, (name,))


async def create_credential(
    ports: Ports, errand: Errand, name: str, given: GivenCredential, comment: str | None
) -> Securable:
    """Create a credential. The external id of its role is the id of the credential."""

    async def prepare(caller: Caller) -> Part:
        part = await prepare_create(ports, caller, credential(name), to_doc(CredentialDetails(), comment))
        create = creation_in(part.changes)
        details = _with_given(ports, create.id, CredentialDetails(), given)
        return replace(part, changes=(replace(create, doc=to_doc(details, comment)),))

    return await settle_one(ports, errand, prepare)


async def change_credential(
    ports: Ports, errand: Errand, name: str, revision: Revision, given: GivenCredential
) -> Securable:
    """Change a credential. A new key or role holds for all its external locations at once."""

    async def prepare(caller: Caller) -> Part:
        chain = await reach(ports, caller, credential(name), Privilege.MODIFY)
        details = msgspec.to_builtins(_with_given(ports, chain[-1].id, credential_of(chain[-1]), given))
        entries = {field: details.get(field) for field in CredentialDetails.__struct_fields__}
        return await revise_found(ports, caller, chain, replace(revision, details=entries))

    return await settle_one(ports, errand, prepare)


def _with_given(ports: Ports, id: SecurableId, before: CredentialDetails, given: GivenCredential) -> CredentialDetails:
    """The record of a credential after a request, with its secret encrypted."""
    details = before
    if given.role_arn is not None:
        external_id = id if before.aws_role is None else before.aws_role.external_id
        details = replace(details, aws_role=AwsRole(role_arn=given.role_arn, external_id=external_id))
    if given.has_key:
        if not given.secret:
            raise InvalidInput("a key needs its secret", field="secret_access_key")
        sealed = ports.secrets.seal(given.secret, owner=id)
        details = replace(details, aws_key_id=given.key_id, gcp=given.gcp, azure=given.azure, sealed=sealed)
    if given.store is not None and given.store != before.s3:
        if before.sealed is not None and not given.has_key:
            # Otherwise a caller that may change the credential, but does not know the key, could use it elsewhere.
            raise InvalidInput("s3_store changes, so the key must be given again", field="aws_access_key")
        details = replace(details, s3=given.store)
    return require_credential(details)


async def delete_credential(ports: Ports, errand: Errand, name: str, *, force: bool) -> Securable:
    """Delete a credential that no external location uses. `force`: also if one does, which then opens nothing."""

    async def prepare(caller: Caller) -> Part:
        part = await prepare_drop(ports, caller, credential(name))
        id = SecurableId(part.done.ids[0])
        user = None if force else await _user_of(ports, id)
        if user is not None:
            raise NotEmpty(
                f"external location '{user}' uses credential '{name}'; delete the location first, or use force",
                name=name,
            )
        # Without a hold, so that the secret is erased soon.
        return replace(part, changes=(Drop(id=id, hold_ms=0),))

    return await settle_one(ports, errand, prepare)


async def _user_of(ports: Ports, id: SecurableId) -> str | None:
    """The name of an external location that uses a credential."""
    async for each in children(ports, ports.ledger.root, Shelf.EXTERNAL_LOCATION):
        if location_of(each).credential == id:
            return each.name
    return None


async def reseal_due(ports: Ports) -> int:
    """Encrypt the secrets with the current key that were encrypted with a former one. Returns their number."""
    due = [
        each
        async for each in children(ports, ports.ledger.root, Shelf.CREDENTIAL)
        if (sealed := credential_of(each).sealed) is not None and not ports.secrets.is_current(sealed)
    ]
    for each in due:
        await _reseal(ports, each.id)
    return len(due)


async def _reseal(ports: Ports, id: SecurableId) -> None:
    async def prepare(_: Caller) -> Part:
        chain = await find_by_id(ports.ledger, id)
        details = credential_of(chain[-1]) if chain else CredentialDetails()
        if details.sealed is None or ports.secrets.is_current(details.sealed):
            return Part()  # deleted, or done by another server
        secret = ports.secrets.open(details.sealed, owner=id)
        doc = to_doc(replace(details, sealed=ports.secrets.seal(secret, owner=id)), chain[-1].doc.comment)
        expects = (Live(id), RevisionIs(id, chain[-1].revision))
        return Part(expects=expects, changes=(Update(id=id, doc=doc),))

    await settle(ports, Errand(caller=SYSTEM, api="chores", request="reseal"), prepare)
