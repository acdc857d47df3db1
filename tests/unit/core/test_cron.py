"""Cron expressions."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from moorage.core.cron import next_time, parse_schedule
from moorage.core.errors import InvalidInput


def after(schedule: str, moment: str) -> str:
    found = next_time(parse_schedule(schedule), int(datetime.fromisoformat(moment + "Z").timestamp() * 1000))
    assert found is not None
    return datetime.fromtimestamp(found / 1000, UTC).isoformat(timespec="minutes").removesuffix("+00:00")


@pytest.mark.parametrize(
    ("schedule", "moment", "due"),
    [
        ("* * * * *", "2026-11-16T12:00:30", "2026-11-16T12:01"),
        ("*/15 * * * *", "2026-11-16T12:45", "2026-11-16T13:00"),
        ("0 3 * * *", "2026-11-16T03:00", "2026-11-17T03:00"),
        ("5,35 8-9 * * *", "2026-11-16T09:35", "2026-11-17T08:05"),
        ("0 0 29 2 *", "2026-11-16T00:00", "2028-02-29T00:00"),
        ("0 0 * * 0", "2026-11-16T00:00", "2026-11-22T00:00"),
        ("0 0 * * 7", "2026-11-16T00:00", "2026-11-22T00:00"),
        ("0 0 1 * 1", "2026-11-17T00:00", "2026-11-23T00:00"),  # the first of a month, or a Monday
        ("10-30/10 0 * * *", "2026-11-16T00:10", "2026-11-16T00:20"),
    ],
)
def test_the_next_time_is_the_first_minute_that_fits(schedule: str, moment: str, due: str) -> None:
    assert after(schedule, moment) == due


@pytest.mark.parametrize(
    "schedule", ["", "* * * *", "60 * * * *", "*/0 * * * *", "5-1 * * * *", "a * * * *", "0 0 31 2 *", "0 24 * * *"]
)
def test_what_is_no_schedule_is_refused(schedule: str) -> None:
    with pytest.raises(InvalidInput):
        parse_schedule(schedule)
