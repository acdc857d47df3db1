"""Keys for object stores, as pyarrow and Hadoop need them."""

from __future__ import annotations

from moorage.client.delta.keys import own_storage, s3a_settings


def test_the_environment_names_the_store_and_libraries_find_its_keys_themselves() -> None:
    environment = {"AWS_ENDPOINT_URL": "http://a", "AWS_ENDPOINT_URL_S3": "http://b", "AWS_DEFAULT_REGION": "eu"}
    assert own_storage(environment) == {"endpoint_override": "http://b", "region": "eu"}
    assert own_storage({"AWS_ACCESS_KEY_ID": "k"}) == {}


def test_vended_keys_are_set_for_one_bucket() -> None:
    storage = {"access_key": "k", "secret_key": "s", "session_token": "t", "endpoint_override": "http://b"}
    assert s3a_settings("lake", storage) == {
        "fs.s3a.bucket.lake.access.key": "k",
        "fs.s3a.bucket.lake.secret.key": "s",
        "fs.s3a.bucket.lake.session.token": "t",
        "fs.s3a.bucket.lake.endpoint": "http://b",
        "fs.s3a.bucket.lake.path.style.access": "true",
        "fs.s3a.bucket.lake.aws.credentials.provider": "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
    }
    assert s3a_settings("lake", {}) == {}
