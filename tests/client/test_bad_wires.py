"""Trying again is always safe: one key for all tries, and nothing happens twice."""

import time
from uuid import uuid4

import pytest

from moorage.client import Client, ClientError
from moorage.core.errors import Advice
from tests.client.bad_wire import BadWire

BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 90\r\nconnection: close\r\n\r\n"
    b'{"error":{"code":"UNAVAILABLE","message":"stopping","advice":"same_request","details":{}}}'
)
UNKNOWN = (
    b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 88\r\nconnection: close\r\n\r\n"
    b'{"error":{"code":"OUTCOME_UNKNOWN","message":"lost","advice":"ask_first","details":{}}} '
)
NO_MOORAGE = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello"
ODD_REFUSAL = b"HTTP/1.1 404 Not Found\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello"


def test_a_lost_answer_is_asked_for_again_and_nothing_happens_twice(client: Client, wire: BadWire) -> None:
    before = client.health().seq
    wire.mishaps = [None, None]
    with Client(wire.url) as unlucky:
        made = unlucky.catalogs.create(f"c-{uuid4().hex}")
    assert client.health().seq == before + 1
    assert client.catalogs.get(made.name) == made
    keys = wire.keys()
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_two_changes_have_two_keys(wire: BadWire) -> None:
    with Client(wire.url) as client:
        name = f"c-{uuid4().hex}"
        client.catalogs.create(name)
        client.catalogs.drop(name)
    assert len(set(wire.keys())) == 2


def test_a_busy_server_is_given_the_time_it_asks_for(wire: BadWire) -> None:
    wire.mishaps = [BUSY]
    heard: list[ClientError] = []
    began = time.monotonic()
    with Client(wire.url, on_retry=heard.append) as client:
        client.catalogs.create(f"c-{uuid4().hex}")
    assert time.monotonic() - began >= 1.0
    assert [(error.code, error.status) for error in heard] == [("UNAVAILABLE", 503)]


def test_an_unknown_outcome_of_a_change_is_asked_for_with_its_key(client: Client, wire: BadWire) -> None:
    before = client.health().seq
    wire.mishaps = [None, UNKNOWN]
    with Client(wire.url) as unlucky:
        unlucky.catalogs.create(f"c-{uuid4().hex}")
    assert client.health().seq == before + 1


def test_an_unknown_outcome_without_a_key_is_not_asked_for_again(wire: BadWire) -> None:
    wire.mishaps = [UNKNOWN]
    with Client(wire.url) as client, pytest.raises(ClientError) as refused:
        client.health()
    assert (refused.value.code, refused.value.advice) == ("OUTCOME_UNKNOWN", Advice.ASK_FIRST)


def test_patience_ends_with_the_last_error(wire: BadWire) -> None:
    wire.mishaps = [BUSY, BUSY]
    with Client(wire.url, patience_s=0.5) as client, pytest.raises(ClientError) as refused:
        client.health()
    assert refused.value.code == "UNAVAILABLE"
    assert len(wire.requests) == 1


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [(NO_MOORAGE, 200, "a Moorage server does not send"), (ODD_REFUSAL, 404, "returned status 404")],
)
def test_a_server_that_is_no_moorage_is_recognised(answer: bytes, status: int, words: str, wire: BadWire) -> None:
    wire.mishaps = [answer]
    with Client(wire.url) as client, pytest.raises(ClientError, match=words) as refused:
        client.health()
    assert (refused.value.code, refused.value.status) == ("UNEXPECTED_ANSWER", status)


def test_a_server_that_is_not_there_is_named() -> None:
    with Client("http://127.0.0.1:1", patience_s=0.3) as client:
        assert not client.is_ready()
        with pytest.raises(ClientError, match=r"cannot reach http://127\.0\.0\.1:1: .*Connection refused") as refused:
            client.catalogs.get("x")
    assert (refused.value.code, refused.value.status) == ("UNREACHABLE", None)


def test_following_the_feed_loses_nothing_on_a_bad_wire(client: Client, wire: BadWire) -> None:
    after = client.health().seq
    with Client(wire.url) as unlucky:
        follow = unlucky.feed.follow(after)
        for number in range(3):
            wire.mishaps = [None]
            client.catalogs.create(f"c-{uuid4().hex}")
            assert next(follow).seq == after + 1 + number
