"""URLs of data files. Each reads one object, for one recipient, until it expires.

Files in an object store get presigned URLs. Files on the local disk are served by this server: the path of such a URL
is a token that names the file, and its signature covers the whole token. When the URL is used, the recipient must
still be active, and the share must still contain the table under the same terms.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import msgspec

from moorage.core.errors import Forbidden, Unsupported
from moorage.storage.confine import confine
from moorage.storage.port import Delegation
from moorage.usecases.ports import Ports
from moorage.usecases.sharing.shared_tables import SharedTable
from moorage.usecases.sharing.tokens import fingerprint

if TYPE_CHECKING:
    from moorage.formats.sharing.file_lines import FileTable, Urls

PREFIX: Final = "/delta-sharing"
FILES: Final = f"{PREFIX}/files/"
SIGNATURE: Final = "X-Amz-Signature"
"""The Rust client of Delta Sharing fetches only URLs with a signature parameter that it knows."""

_BETWEEN: Final = f"?{SIGNATURE}=".encode()
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

    def __init__(
        self, ports: Ports, recipient: str, shared: SharedTable, store: Delegation | None, lifetime_ms: int
    ) -> None:
        """`store` presigns URLs; None for a table on local disk."""
        self._ports = ports
        self._store = store
        self._root = _root_of(shared)
        self.expires_at_ms = ports.now_ms() + lifetime_ms
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
        self.is_local = store is None
        """Whether this server serves the files. Their URLs can then be made by columns."""
        self._before = f"{ports.public_url}{FILES}".encode() + self._permit + b"."

    async def sign(self, log_paths: Sequence[str]) -> list[bytes]:
        """The URLs of files, given by their paths in the log."""
        if self._store is None:
            urls: list[bytes] = self.join(*self._names_of(log_paths)).to_pylist()
            return urls
        keys = [key_of(self._root, path) for path in log_paths]
        seconds = max(1, (self.expires_at_ms - self._ports.now_ms()) // 1000)
        return [url.encode() for url in await self._store.presign(self._root, keys, seconds=seconds)]

    def with_names(self, tails: FileTable) -> FileTable:
        """Tails with what the URLs of this server need of each file instead of its path, the same in every response."""
        for name, path in (("name", "path"), ("vector_name", "vector_path")):
            column = tails[path]
            tails = tails.drop_columns([path])
            if column.null_count < len(column):
                names, digests = self._names_of(column.to_pylist())
                tails = tails.append_column(name, names).append_column(name.replace("name", "digest"), digests)
        return tails

    def join(self, names: Any, digests: Any) -> Urls:
        """The URLs of files, from columns of `with_names`; null where a name is."""
        from moorage.formats.sharing.url_signatures import permit_key, signed_urls

        key = permit_key(self._ports.page_secret, self._permit)
        return signed_urls(key, self._before, names, _BETWEEN, digests)

    def _names_of(self, log_paths: Sequence[str | None]) -> tuple[Any, Any]:
        """The encoded names of files, and the digests of the names."""
        from moorage.formats.sharing.file_lines import to_urls
        from moorage.formats.sharing.url_signatures import digests_of

        names = [None if path is None else _encoded(key_of(self._root, path).encode()) for path in log_paths]
        return to_urls(names), digests_of(names)


async def open_urls(ports: Ports, recipient: str, shared: SharedTable) -> FileUrls:
    """The URLs for a recipient of a table. Unsupported if this server may not use the store of its files."""
    root = _root_of(shared)
    store = None if root.startswith("file:") else await ports.stores.find(root)
    if store is None and not root.startswith("file:"):
        raise Unsupported("this server cannot give access to the files of the table; tell its provider")
    lifetime_ms = ports.share_url_lifetime_ms
    if store is not None:
        lifetime_ms = 1000 * await store.url_seconds(lifetime_ms // 1000)
    return FileUrls(ports, recipient, shared, store, lifetime_ms)


def key_of(root: str, log_path: str) -> str:
    """The key of a file below the root of its table. The log has it percent-encoded, and perhaps absolute."""
    if "%" not in log_path and ":" not in log_path and not log_path.startswith("/"):
        return log_path  # the snapshot has checked that the path is inside the table
    decoded = unquote(log_path)
    return confine(root, log_path) if ":" in decoded or decoded.startswith("/") else decoded


def open_permit(secret: bytes, token: str, signature: str, now_ms: int) -> tuple[Permit, str]:
    """The permit and the file's key in a URL that this server signed. Forbidden if it did not, or if it expired."""
    from moorage.formats.sharing.url_signatures import is_signed, permit_key

    permit_text, _, key_text = token.partition(".")
    if not is_signed(permit_key(secret, permit_text.encode()), key_text.encode(), signature.encode()):
        raise Forbidden(_FORBIDDEN)
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


def _encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _decoded(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
