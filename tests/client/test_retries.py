"""Retries are safe: all attempts of a request send the same idempotency key, and it is carried out once."""

import time
from uuid import uuid4

import pytest

from moorage.client import Client, ClientError
from moorage.core.errors import Advice
from tests.client.faulty_proxy import FaultyProxy

BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 90\r\nconnection: close\r\n\r\n"
    b'{"error":{"code":"UNAVAILABLE","message":"stopping","advice":"same_request","details":{}}}'
)
UNKNOWN = (
    b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 88\r\nconnection: close\r\n\r\n"
    b'{"error":{"code":"OUTCOME_UNKNOWN","message":"lost","advice":"ask_first","details":{}}} '
)
NOT_MOORAGE = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello"
UNKNOWN_REFUSAL = b"HTTP/1.1 404 Not Found\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello"


def test_a_request_whose_response_was_lost_is_retried_and_carried_out_once(client: Client, proxy: FaultyProxy) -> None:
    before = client.health().seq
    proxy.faults = [None, None]
    with Client(proxy.url) as behind_proxy:
        created = behind_proxy.catalogs.create(f"c-{uuid4().hex}")
    assert client.health().seq == before + 1
    assert client.catalogs.get(created.name) == created
    keys = proxy.keys()
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_two_changes_send_two_idempotency_keys(proxy: FaultyProxy) -> None:
    with Client(proxy.url) as client:
        name = f"c-{uuid4().hex}"
        client.catalogs.create(name)
        client.catalogs.drop(name)
    assert len(set(proxy.keys())) == 2


def test_a_retry_waits_as_long_as_retry_after_demands(proxy: FaultyProxy) -> None:
    proxy.faults = [BUSY]
    retried: list[ClientError] = []
    began = time.monotonic()
    with Client(proxy.url, on_retry=retried.append) as client:
        client.catalogs.create(f"c-{uuid4().hex}")
    assert time.monotonic() - began >= 1.0
    assert [(error.code, error.status) for error in retried] == [("UNAVAILABLE", 503)]


def test_a_change_with_an_unknown_outcome_is_retried_with_its_key(client: Client, proxy: FaultyProxy) -> None:
    before = client.health().seq
    proxy.faults = [None, UNKNOWN]
    with Client(proxy.url) as behind_proxy:
        behind_proxy.catalogs.create(f"c-{uuid4().hex}")
    assert client.health().seq == before + 1


def test_a_request_without_a_key_is_not_retried_after_an_unknown_outcome(proxy: FaultyProxy) -> None:
    proxy.faults = [UNKNOWN]
    with Client(proxy.url) as client, pytest.raises(ClientError) as refused:
        client.health()
    assert (refused.value.code, refused.value.advice) == ("OUTCOME_UNKNOWN", Advice.ASK_FIRST)


def test_the_last_error_is_raised_when_the_time_for_retries_is_over(proxy: FaultyProxy) -> None:
    proxy.faults = [BUSY, BUSY]
    with Client(proxy.url, patience_s=0.5) as client, pytest.raises(ClientError) as refused:
        client.health()
    assert refused.value.code == "UNAVAILABLE"
    assert len(proxy.requests) == 1


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [(NOT_MOORAGE, 200, "a Moorage server does not send"), (UNKNOWN_REFUSAL, 404, "returned status 404")],
)
def test_a_response_from_another_kind_of_server_is_recognised(
    answer: bytes, status: int, words: str, proxy: FaultyProxy
) -> None:
    proxy.faults = [answer]
    with Client(proxy.url) as client, pytest.raises(ClientError, match=words) as refused:
        client.health()
    assert (refused.value.code, refused.value.status) == ("UNEXPECTED_ANSWER", status)


def test_the_error_for_an_unreachable_server_names_its_url() -> None:
    with Client("http://127.0.0.1:1", patience_s=0.3) as client:
        assert not client.is_ready()
        with pytest.raises(ClientError, match=r"cannot reach http://127\.0\.0\.1:1: .*Connection refused") as refused:
            client.catalogs.get("x")
    assert (refused.value.code, refused.value.status) == ("UNREACHABLE", None)


def test_following_the_feed_loses_no_entry_when_responses_are_lost(client: Client, proxy: FaultyProxy) -> None:
    after = client.health().seq
    with Client(proxy.url) as behind_proxy:
        follow = behind_proxy.feed.follow(after)
        for number in range(3):
            proxy.faults = [None]
            client.catalogs.create(f"c-{uuid4().hex}")
            assert next(follow).seq == after + 1 + number
