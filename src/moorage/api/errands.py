"""From a call to an errand: the same in every API."""

from __future__ import annotations

from typing import Any

from moorage.core.entries import Claim
from moorage.http import Call
from moorage.usecases.ports import Errand, Ports


def errand_of(call: Call[Any, Any], ports: Ports) -> Errand:
    """Who asks, through which API, and under which idempotency key, if the client sent one."""
    key = call.key
    claim = None
    if key is not None:
        claim = Claim(key=key, print=call.fingerprint(), lifetime_ms=ports.key_lifetime_ms)
    return Errand(
        caller=call.caller, api=call.route.api, request=call.request_id, claim=claim, authenticate=call.authenticate
    )
