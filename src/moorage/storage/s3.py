"""The buckets of an S3 store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from obstore.store import S3Store

from moorage.storage.object_storage import ObjectStorage
from moorage.storage.s3_account import S3Account, S3Key
from moorage.storage.s3_sessions import S3Sessions

if TYPE_CHECKING:
    from obstore.store import S3Credential


class S3Storage(ObjectStorage):
    """Objects below the locations of an account."""

    def __init__(self, account: S3Account, sessions: S3Sessions | None = None) -> None:
        issued = sessions or S3Sessions(account)
        super().__init__(account.endpoint, account.locations, lambda bucket: _open_bucket(account, bucket, issued))


def _open_bucket(account: S3Account, bucket: str, sessions: S3Sessions) -> S3Store:
    address = account.address_of(bucket)

    def own_key() -> S3Credential:
        return _to_obstore(account.key, None)

    async def role_key() -> S3Credential:
        session = await sessions.own_session()
        return _to_obstore(session.key, datetime.fromtimestamp(session.expires_at_ms / 1000, UTC))

    return S3Store(
        bucket,
        # All options are explicit, so that obstore takes none from the server's environment variables.
        endpoint=address,
        aws_endpoint_url_s3=address,
        region=account.region,
        virtual_hosted_style_request=not account.path_style,
        skip_signature=False,
        credential_provider=own_key if account.role_arn is None else role_key,
        client_options={"allow_http": True, "connect_timeout": "5s", "timeout": "30s"},
        retry_config={"max_retries": 3, "retry_timeout": timedelta(seconds=20)},
    )


def _to_obstore(key: S3Key, expires_at: datetime | None) -> S3Credential:
    return {
        "access_key_id": key.access_key_id,
        "secret_access_key": key.secret_access_key,
        "token": key.token,
        "expires_at": expires_at,
    }
