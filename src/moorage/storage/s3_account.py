"""An object store that speaks S3: where it is, the key to it, and the places in it that this server may use."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec


class S3Key(msgspec.Struct, frozen=True, kw_only=True):
    """What signs requests; one that was borrowed has a token."""

    access_key_id: str
    secret_access_key: str
    token: str | None = None

    def __repr__(self) -> str:
        """Without the secret: this may end up in logs and bug reports."""
        return f"S3Key({self.access_key_id})"


class S3Account(msgspec.Struct, frozen=True, kw_only=True):
    """One endpoint and one key. The secret stays in this process."""

    endpoint: str
    """http(s)://host, without a bucket and without a path."""
    region: str
    key: S3Key
    path_style: bool
    """Whether the bucket is the first part of the path; else it is the first part of the host's name."""
    places: tuple[str, ...]
    """s3://bucket/ or s3://bucket/folder/."""
    is_strict: bool = False
    """Whether the store refuses headers that were not signed, and bodies other than the signed one. MinIO does not."""

    @property
    def buckets(self) -> frozenset[str]:
        return frozenset(bucket_and_key(place)[0] for place in self.places)

    def holds(self, place: str) -> bool:
        """Whether this server may use the place."""
        return place.startswith(self.places)

    def address_of(self, bucket: str) -> str:
        """Where the requests for a bucket go."""
        scheme, host = urlsplit(self.endpoint)[:2]
        return self.endpoint if self.path_style else f"{scheme}://{bucket}.{host}"

    def options(self) -> dict[str, str]:
        """The account in the words of pylance, with its secret."""
        return {
            "aws_endpoint": self.endpoint,
            "aws_region": self.region,
            "aws_access_key_id": self.key.access_key_id,
            "aws_secret_access_key": self.key.secret_access_key,
            "aws_virtual_hosted_style_request": "false" if self.path_style else "true",
            "allow_http": "true",
            "client_max_retries": "3",
            "client_retry_timeout": "20",
        }

    def __repr__(self) -> str:
        return f"S3Account({self.key.access_key_id} at {self.endpoint}: {', '.join(self.places)})"


def bucket_and_key(place: str) -> tuple[str, str]:
    """The bucket of a place, and the key that its objects begin with; that ends with a slash or is empty."""
    bucket, _, key = place.removeprefix("s3://").partition("/")
    return bucket, key
