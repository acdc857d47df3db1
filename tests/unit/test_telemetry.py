from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from moorage.http import Answer, Call, NoBody, NoQuery, current_request_id
from moorage.server.settings import SettingsError, load
from moorage.server.telemetry import Metrics, Tracing, observing, start_logging
from tests.unit.http.harbour import api_that, app_of, ask


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    stream = io.StringIO()
    start_logging(load(flags={"log_level": "info"}), stream)
    yield stream
    root.handlers[:] = before
    root.setLevel(level)


def test_a_log_line_is_json_with_its_request_id(lines: io.StringIO) -> None:
    token = current_request_id.set("r-1")
    logging.getLogger("moorage.test").warning("%s ran\naground", "Esmeralda", extra={"fields": {"depth": 3}})
    current_request_id.reset(token)
    line = json.loads(lines.getvalue())
    assert lines.getvalue().count("\n") == 1
    assert (line["level"], line["logger"], line["message"]) == ("warning", "moorage.test", "Esmeralda ran\naground")
    assert (line["request_id"], line["depth"]) == ("r-1", 3)
    assert line["ts"].endswith("+00:00")


def test_a_log_line_carries_the_traceback(lines: io.StringIO) -> None:
    try:
        raise ZeroDivisionError("aground")
    except ZeroDivisionError:
        logging.getLogger("moorage.test").exception("failed")
    assert "ZeroDivisionError: aground" in json.loads(lines.getvalue())["traceback"]


def test_a_value_that_is_not_json_is_logged_as_text(lines: io.StringIO) -> None:
    logging.getLogger("moorage.test").info("x", extra={"fields": {"kind": object}})
    assert json.loads(lines.getvalue())["kind"] == "<class 'object'>"


async def greet(call: Call[NoBody, NoQuery]) -> Answer:
    return Answer.empty()


async def test_requests_are_counted_by_operation_and_status() -> None:
    metrics = Metrics()
    app = app_of(api_that(greet), observe=observing(metrics, load()))
    metrics.gauge("moorage_requests_in_flight", "Requests being answered.", lambda: len(app.in_flight))
    for path in ("/harbour/ships", "/harbour/ships", "/nothing"):
        await ask(app, "GET", path)
    found = {
        (
            sample.name,
            sample.labels.get("operation"),
            sample.labels.get("status"),
            sample.labels.get("le"),
        ): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }
    assert found["moorage_requests_total", "act", "204", None] == 2
    assert found["moorage_requests_total", "none", "404", None] == 1
    assert found["moorage_request_seconds_count", "act", "204", None] == 2
    assert found["moorage_request_seconds_bucket", "act", "204", "+Inf"] == 2
    assert found["moorage_requests_in_flight", None, None, None] == 0


def test_tracing_without_the_otel_extra_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(SettingsError, match=r"pip install 'moorage\[otel\]'"):
        Tracing("http://127.0.0.1:4318")
