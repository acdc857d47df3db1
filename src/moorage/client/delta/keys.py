"""Keys for the files of a table in an object store: the caller's own, or temporary ones that the server vends."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from moorage.client.delta.locations import Storage
from moorage.client.errors import ClientError
from moorage.client.transport import Transport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROUTE: Final = "/api/2.1/unity-catalog/temporary-table-credentials"
_STORES: Final = ("s3://", "s3a://")
_NOT_VENDED: Final = "UNIMPLEMENTED"
_OWN_KEY: Final = "spark.hadoop.fs.s3a.access.key"
_S3A: Final = {
    "access_key": "access.key",
    "secret_key": "secret.key",
    "session_token": "session.token",
    "region": "endpoint.region",
    "endpoint_override": "endpoint",
}
_TEMPORARY: Final = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"


class _Key(msgspec.Struct):
    access_key_id: str
    secret_access_key: str
    session_token: str
    endpoint: str | None = None
    region: str | None = None


class _Answer(msgspec.Struct):
    aws_temp_credentials: _Key | None = None


def is_in_object_store(location: str) -> bool:
    return location.startswith(_STORES)


def storage_for(transport: Transport, table_id: str, location: str, *, write: bool) -> Storage:
    """How to reach the files of a table, as arguments of pyarrow's S3FileSystem. Local disk needs nothing.

    Keys in the environment are preferred to those of the server: the caller wants to use them.
    """
    if not is_in_object_store(location):
        return {}
    own = own_storage(os.environ)
    if "AWS_ACCESS_KEY_ID" in os.environ:
        return own
    body = {"table_id": table_id, "operation": "READ_WRITE" if write else "READ"}
    try:
        key = transport.note(_ROUTE, _Answer, body=body).aws_temp_credentials
    except ClientError as error:
        if error.code != _NOT_VENDED:
            raise
        return own  # of the instance, or of a profile
    if key is None:
        return own
    vended = {
        "access_key": key.access_key_id,
        "secret_key": key.secret_access_key,
        "session_token": key.session_token,
        "endpoint_override": key.endpoint,
        "region": key.region,
    }
    return own | {name: value for name, value in vended.items() if value is not None}


def own_storage(environment: Mapping[str, str]) -> Storage:
    """The store that the environment names. Every library finds the keys there by itself."""
    found = {
        "endpoint_override": environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL"),
        "region": environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION"),
    }
    return {name: value for name, value in found.items() if value}


@contextmanager
def spark_keys(spark: SparkSession, transport: Transport, table_id: str, location: str) -> Iterator[None]:
    """Let Spark write the files of a table for one statement. A session with keys of its own uses those."""
    if not is_in_object_store(location) or spark.conf.get(_OWN_KEY, None):
        yield
        return
    bucket = urlsplit(location).netloc
    settings = s3a_settings(bucket, storage_for(transport, table_id, location, write=True))
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        # They open one table only. Other reads from this bucket need the keys of the session.
        for name in settings:
            spark.conf.unset(name)


def s3a_settings(bucket: str, storage: Storage) -> dict[str, str]:
    """The same for Hadoop, for one bucket."""
    prefix = f"fs.s3a.bucket.{bucket}."
    settings = {prefix + _S3A[name]: value for name, value in storage.items()}
    if "endpoint_override" in storage:
        settings[f"{prefix}path.style.access"] = "true"
    if "session_token" in storage:
        settings[f"{prefix}aws.credentials.provider"] = _TEMPORARY
    return settings
