"""TLS of the server itself. A renewed certificate is used for new connections; the open ones are not dropped."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from pathlib import Path
from typing import Any, Final

log = logging.getLogger(__name__)

_POLL_SECONDS: Final = 1.0


class TlsError(Exception):
    """The certificate or its key cannot be used. The message is one line with the reason."""


class Tls:
    """A certificate and its key, in two files that may be replaced at any time."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._files = (certificate, key)
        self._loaded_state = self._state()
        self._current = self._load()
        self.context = self._load()
        """For the listener. Each handshake continues in the newest context, so a reload is atomic."""
        self.context.sni_callback = self._use_current

    async def watch(self) -> None:
        """Load the files again whenever they change, until cancelled. If they do not fit, the old ones stay in use."""
        reported = None
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            state = self._state()
            if state == self._loaded_state:
                continue
            try:
                self._current = await asyncio.to_thread(self._load)
            except TlsError as error:  # a renewal replaces one file after the other: try again
                if reported != state:
                    log.warning("the TLS certificate was not reloaded: %s", error)
                reported = state
                continue
            self._loaded_state = state
            log.warning("the TLS certificate was reloaded from %s", self._files[0])

    def _use_current(self, connection: Any, name: str | None, context: ssl.SSLContext) -> None:
        connection.context = self._current

    def _state(self) -> list[tuple[int, ...]]:
        """What changes when a file is written, or replaced by another one."""
        return [_state_of(file) for file in self._files]

    def _load(self) -> ssl.SSLContext:
        certificate, key = self._files
        for file in self._files:
            try:
                file.read_bytes()
            except OSError as error:
                raise TlsError(f"cannot read {file}: {error.strerror}") from None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            # An empty password, because OpenSSL would ask for one on the terminal.
            context.load_cert_chain(certificate, key, password="")
        except (ssl.SSLError, OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise TlsError(
                f"{certificate} and {key} are not a certificate and its key in PEM format ({reason}); "
                "the key must have no password"
            ) from None
        return context


def _state_of(file: Path) -> tuple[int, ...]:
    try:
        found = os.stat(file)
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns
