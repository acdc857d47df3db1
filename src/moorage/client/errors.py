"""The one error that the client raises, with the server's message."""

from __future__ import annotations

from typing import Any

from moorage.core.errors import Advice

UNREACHABLE = "UNREACHABLE"
UNEXPECTED_ANSWER = "UNEXPECTED_ANSWER"


class ClientError(Exception):
    """The server refused the request or could not be reached. `advice` states what the caller may do next."""

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
        """None if there was no response."""
        self.field = field
        self.request_id = request_id
        self.details = details or {}

    @property
    def is_transient(self) -> bool:
        """Whether the error is transient: the same request may succeed later without any change."""
        return self.status in (None, 503) or self.advice is Advice.SAME_REQUEST
