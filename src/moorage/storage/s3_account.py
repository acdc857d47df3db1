"""An S3 account: the endpoint, the access key, and the locations that this server may use."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec


class S3Key(msgspec.Struct, frozen=True, kw_only=True):
    """The key that signs requests. A temporary key has a session token."""

    access_key_id: str
    secret_access_key: str
    token: str | None = None

    def __repr__(self) -> str:
        """Omits the secret, because this text may be copied into logs and bug reports."""
        return f"S3Key({self.access_key_id})"


class S3Account(msgspec.Struct, frozen=True, kw_only=True):
    """One endpoint and one key. The secret is never sent to clients."""

    endpoint: str
    """http(s)://host, without bucket and path."""
    region: str
    key: S3Key
    path_style: bool
    """Whether the bucket is the first part of the path. Otherwise it is the first part of the host name."""
    locations: tuple[str, ...]
    """s3://bucket/ or s3://bucket/folder/."""
    is_strict: bool = False
    """Whether the store refuses unsigned headers, and bodies other than the signed one. MinIO accepts both."""
    sts_endpoint: str | None = None
    """Where sessions are issued, if not at the endpoint."""
    role_arn: str | None = None
    """The role that opens the locations. The key may only assume it."""
    external_id: str | None = None

    @property
    def buckets(self) -> frozenset[str]:
        return frozenset(bucket_and_key(location)[0] for location in self.locations)

    def holds(self, location: str) -> bool:
        """Whether this server may use the location."""
        return location.startswith(self.locations)

    def address_of(self, bucket: str) -> str:
        """Return the URL to which requests for a bucket are sent."""
        scheme, host = urlsplit(self.endpoint)[:2]
        return self.endpoint if self.path_style else f"{scheme}://{bucket}.{host}"

    def options(self, key: S3Key | None = None) -> dict[str, str]:
        """Return the account as pylance's storage options, secret included. `key`: instead of the account's own."""
        key = key or self.key
        token = {} if key.token is None else {"aws_session_token": key.token}
        return {
            "aws_endpoint": self.endpoint,
            "aws_region": self.region,
            "aws_access_key_id": key.access_key_id,
            "aws_secret_access_key": key.secret_access_key,
            **token,
            "aws_virtual_hosted_style_request": "false" if self.path_style else "true",
            "allow_http": "true",
            "client_max_retries": "3",
            "client_retry_timeout": "20",
        }

    def __repr__(self) -> str:
        return f"S3Account({self.key.access_key_id} at {self.endpoint}: {', '.join(self.locations)})"


def bucket_and_key(location: str) -> tuple[str, str]:
    """Return the bucket of a location, and the key prefix of its objects, which is empty or ends with a slash."""
    bucket, _, key = location.partition("://")[2].partition("/")
    return bucket, key
