"""Encryption of the secrets that the catalog stores.

AES-256-GCM with a key that is not in the ledger. The id of the object is authenticated too, so that an encrypted secret
cannot be moved to another object.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from typing import Final

from moorage.core.errors import Unavailable, Unsupported

KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_VERSION: Final = "v1"


def parse_keys(text: str) -> tuple[bytes, ...]:
    """The keys of a text: base64 of 32 bytes each, separated by commas or line breaks. Raises ValueError."""
    words = [word.strip() for word in text.replace(",", "\n").splitlines() if word.strip()]
    try:
        keys = tuple(base64.b64decode(word, validate=True) for word in words)
    except binascii.Error:
        keys = ()
    if not keys or any(len(key) != KEY_BYTES for key in keys):
        raise ValueError("expected base64 of 32 bytes, as `openssl rand -base64 32` prints it")
    return keys


class SecretKeys:
    """Encrypts with the first key, and decrypts with the key that a secret was encrypted with."""

    def __init__(self, *keys: bytes) -> None:
        self._keys = {_id_of(key): key for key in keys}
        self._current = _id_of(keys[0]) if keys else None

    def seal(self, secret: str, *, owner: str) -> str:
        """Encrypt the secret of an object. Raises Unsupported if the server has no key."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        if self._current is None:
            raise Unsupported(
                "this server has no key to encrypt secrets with; set MOORAGE_SECRET_KEY to the output of "
                "`openssl rand -base64 32`, keep it safe, and restart the server"
            )
        nonce = os.urandom(_NONCE_BYTES)
        sealed = nonce + AESGCM(self._keys[self._current]).encrypt(nonce, secret.encode(), owner.encode())
        return f"{_VERSION}.{self._current}.{base64.b64encode(sealed).decode()}"

    def open(self, sealed: str, *, owner: str) -> str:
        """Decrypt the secret of an object. Raises Unavailable if the server does not have its key."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        _, id, text = sealed.split(".")
        key = self._keys.get(id)
        if key is None:
            raise Unavailable(
                f"the secret of {owner} was encrypted with the key {id}, which this server does not have; "
                "add that key to MOORAGE_SECRET_KEY"
            )
        data = base64.b64decode(text)
        try:
            return AESGCM(key).decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], owner.encode()).decode()
        except InvalidTag:
            raise Unavailable(f"the secret of {owner} is damaged; set it again") from None

    def is_current(self, sealed: str) -> bool:
        """Whether the secret was encrypted with the first key. If there is no key, nothing can be encrypted again."""
        return self._current is None or sealed.split(".")[1] == self._current

    def __repr__(self) -> str:
        return f"SecretKeys({', '.join(self._keys)})"


def _id_of(key: bytes) -> str:
    """The name of a key in encrypted secrets. It reveals nothing of the key."""
    return hashlib.sha256(b"moorage-secret-key" + key).hexdigest()[:8]
