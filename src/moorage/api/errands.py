"""Converts a call of any API to an errand."""

from __future__ import annotations

from typing import Any

from moorage.core.entries import IdempotencyKey
from moorage.http import Call
from moorage.usecases.ports import Errand, Ports


def errand_of(call: Call[Any, Any], ports: Ports) -> Errand:
    """The errand of a call: caller, API, request id, and the idempotency key if the client sent one."""
    key = None
    if call.key is not None:
        key = IdempotencyKey(value=call.key, fingerprint=call.fingerprint(), lifetime_ms=ports.key_lifetime_ms)
    return Errand(
        caller=call.caller,
        api=call.route.api,
        request=call.request_id,
        key=key,
        authenticate=call.authenticate,
    )
