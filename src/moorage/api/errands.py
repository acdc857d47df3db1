"""Converts a call of any API to an errand."""

from __future__ import annotations

import re
from typing import Any

from moorage.core.entries import IdempotencyKey, JobHeld
from moorage.core.errors import InvalidInput
from moorage.core.ids import Fence, JobId
from moorage.http import Call
from moorage.usecases.ports import Errand, Ports

_JOB_HEADER = re.compile(r"([^;\s]{1,64})\s*;\s*fence=([^;\s]{1,64})")


def errand_of(call: Call[Any, Any], ports: Ports) -> Errand:
    """The errand of a call: caller, API, request id, and the idempotency key and the job if the client sent them."""
    key = None
    if call.key is not None:
        key = IdempotencyKey(value=call.key, fingerprint=call.fingerprint(), lifetime_ms=ports.key_lifetime_ms)
    return Errand(
        caller=call.caller,
        api=call.route.api,
        request=call.request_id,
        key=key,
        job=_job_of(call),
        authenticate=call.authenticate,
    )


def _job_of(call: Call[Any, Any]) -> JobHeld | None:
    """The job that a worker acts for, from its token or the header `Moorage-Job: <id>;fence=<fence>`."""
    scope = call.caller.job
    if scope is not None:  # a request with the token of a job has no effect without the job
        return JobHeld(scope.job, scope.fence)
    text = call.header("moorage-job")
    if text is None:
        return None
    found = _JOB_HEADER.fullmatch(text.strip())
    if found is None:
        raise InvalidInput("Moorage-Job must have the form <job id>;fence=<fence of its lease>", field="Moorage-Job")
    return JobHeld(JobId(found[1]), Fence(found[2]))
