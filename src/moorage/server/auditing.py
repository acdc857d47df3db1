"""Passes answered requests to the audit."""

from __future__ import annotations

from collections.abc import Callable

from moorage.api.sharing import sharing
from moorage.http.exchanges import Exchange
from moorage.usecases.identity.audit import Request, record_request
from moorage.usecases.ports import Ports


def auditing(ports: Ports, *, reads: bool) -> Callable[[Exchange], None]:
    """The function that the app calls after every answer. `reads`: record successful reads too.

    Without authentication there is one caller, and the feed has all that it changed. Then only the requests of
    recipients are recorded, who always authenticate.
    """

    def observe(exchange: Exchange) -> None:
        route, status = exchange.route, exchange.status
        if route is None or not (status >= 400 or route.mutation or reads):
            return
        if not ports.access.authenticates and route.api != sharing.name:
            return
        request = Request(
            caller=None if route.public else exchange.caller,
            api=route.api,
            operation=route.operation,
            address=exchange.address,
            error=exchange.error,
            status=status,
            is_counted=route.mutation or reads,
        )
        record_request(ports, request)

    return observe
