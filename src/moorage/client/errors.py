"""What a caller of the client has to reckon with: one error, with the server's own words."""

from __future__ import annotations

from typing import Any

from moorage.core.errors import Advice

UNREACHABLE = "UNREACHABLE"
UNEXPECTED_ANSWER = "UNEXPECTED_ANSWER"


class ClientError(Exception):
    """The server refused, or could not be reached. `advice` says what may be done next."""

    def __init__(
        self,
        message: str,
        *,
        code: str,
        advice: Advice,
        status: int | None = None,
        field: str | None = None,
        request_id: str | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.advice = advice
        self.status = status
        """None: there was no answer at all."""
        self.field = field
        self.request_id = request_id
        self.details = details or {}

    @property
    def is_passing(self) -> bool:
        """Whether the same request may go well a little later, without anybody changing anything."""
        return self.status in (None, 503) or self.advice is Advice.SAME_REQUEST
