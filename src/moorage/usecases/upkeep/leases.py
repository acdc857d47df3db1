"""Whether the worker of a request still has the job that it works on."""

from __future__ import annotations

from moorage.core.entries import JobHeld
from moorage.core.errors import InvalidInput, LeaseLost
from moorage.core.jobs import LEASE_MS
from moorage.usecases.ports import Ports


async def require_lease(ports: Ports, held: JobHeld | None) -> JobHeld:
    """Extend the lease of the job that a request carries; LeaseLost if another worker has taken it, or it has ended.

    What other workers did before this call, they did before they lost the job, or never had it.
    """
    if held is None or held.fence is None:
        raise InvalidInput("the header Moorage-Job is required: <job id>;fence=<fence>", field="Moorage-Job")
    if await ports.ledger.renew_lease(held.job, held.fence, LEASE_MS, None) is None:
        raise LeaseLost(f"job '{held.job}' was leased to another worker or has ended; stop working on it", id=held.job)
    return held
