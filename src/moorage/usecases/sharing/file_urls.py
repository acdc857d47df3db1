"""URLs of data files. Each reads one object, for one recipient, until it expires.

Files in an object store get presigned URLs. Files on the local disk are served by this server: the path of such a URL
is a token that names the file, and its signature covers the whole token. When the URL is used, the recipient must
still be active, and the share must still contain the table under the same terms.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final
from urllib.parse import unquote

import msgspec

from moorage.core.errors import Forbidden, Unsupported
from moorage.storage.confine import confine
from moorage.usecases.ports import Ports
from moorage.usecases.sharing.shared_tables import SharedTable
from moorage.usecases.sharing.tokens import fingerprint

PREFIX: Final = "/delta-sharing"
FILES: Final = f"{PREFIX}/files/"
SIGNATURE: Final = "X-Amz-Signature"
"""The Rust client of Delta Sharing fetches only URLs with a signature parameter that it knows."""

_PURPOSE: Final = b"sharing-file"
_SIGNATURE_BYTES: Final = 20
_FORBIDDEN: Final = "the URL is not valid; query the table again for new URLs"


class Permit(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What the token of a URL states besides the file."""

    recipient: str
    share: str
    schema: str
    name: str
    table: str
    terms: str
    """A digest of what the share allows. A URL ends with the terms that it was issued under."""
    expires_at_ms: int


def terms_of(shared: SharedTable) -> str:
    return fingerprint(shared.share_id, shared.partitions, shared.history, shared.start_version)


class FileUrls:
    """Makes the URLs of one response."""

    def __init__(self, ports: Ports, recipient: str, shared: SharedTable) -> None:
        self._ports = ports
        self._root = _root_of(shared)
        self.expires_at_ms = ports.now_ms() + ports.share_url_lifetime_ms
        permit = Permit(
            recipient=recipient,
            share=shared.share,
            schema=shared.schema,
            name=shared.name,
            table=shared.table.id,
            terms=terms_of(shared),
            expires_at_ms=self.expires_at_ms,
        )
        self._permit = _encoded(msgspec.json.encode(permit))
        self._is_local = self._root.startswith("file:")
        self._base = f"{ports.public_url}{FILES}".encode()
        if not self._is_local and (ports.delegation is None or not ports.delegation.allows(self._root)):
            raise Unsupported("this server cannot give access to the files of the table; tell its provider")

    async def sign(self, log_paths: Sequence[str]) -> list[bytes]:
        """The URLs of files, given by their paths in the log."""
        keys = [key_of(self._root, path) for path in log_paths]
        if self._is_local:
            secret = self._ports.page_secret
            tokens = [b"%b.%b" % (self._permit, _encoded(key.encode())) for key in keys]
            mark = f"?{SIGNATURE}=".encode()
            return [b"%b%b%b%b" % (self._base, token, mark, _signature(secret, token)) for token in tokens]
        assert self._ports.delegation is not None  # noqa: S101 - checked at the start
        seconds = max(1, (self.expires_at_ms - self._ports.now_ms()) // 1000)
        return [url.encode() for url in await self._ports.delegation.presign(self._root, keys, seconds=seconds)]


def key_of(root: str, log_path: str) -> str:
    """The key of a file below the root of its table. The log has it percent-encoded, and perhaps absolute."""
    if "%" not in log_path and ":" not in log_path and not log_path.startswith("/"):
        return log_path  # the snapshot has checked that the path is inside the table
    decoded = unquote(log_path)
    return confine(root, log_path) if ":" in decoded or decoded.startswith("/") else decoded


def open_permit(secret: bytes, token: str, signature: str, now_ms: int) -> tuple[Permit, str]:
    """The permit and the file's key in a URL that this server signed. Forbidden if it did not, or if it expired."""
    if not hmac.compare_digest(_signature(secret, token.encode()), signature.encode()):
        raise Forbidden(_FORBIDDEN)
    permit_text, _, key_text = token.partition(".")
    try:
        permit = msgspec.json.decode(_decoded(permit_text), type=Permit)
        key = _decoded(key_text).decode()
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise Forbidden(_FORBIDDEN) from None
    if permit.expires_at_ms <= now_ms:
        raise Forbidden("the URL has expired; query the table again for new URLs")
    return permit, key


def _root_of(shared: SharedTable) -> str:
    location = shared.table.doc.location or ""
    return location if location.endswith("/") else f"{location}/"


def _signature(secret: bytes, token: bytes) -> bytes:
    return blake2b(token, key=secret, digest_size=_SIGNATURE_BYTES, person=_PURPOSE).hexdigest().encode()


def _encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _decoded(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
