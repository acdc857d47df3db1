"""Signatures of the URLs under which the server itself serves data files.

A response may have a hundred thousand of them, so they are made by columns. A signature is one block of AES: its key
is derived from the server's secret and from the permit, which all URLs of a response share, and the block is a digest
of the file's name. The digests are the same in every response and can be cached.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

_PURPOSE: Final = b"sharing-file"
_KEY_BYTES: Final = 32
_BLOCK: Final = 16
DIGEST: Final = pa.binary(_BLOCK)
Column: TypeAlias = pa.Array | pa.ChunkedArray


def permit_key(secret: bytes, permit: bytes) -> bytes:
    """The key for the URLs with this permit."""
    return blake2b(permit, key=secret, digest_size=_KEY_BYTES, person=_PURPOSE).digest()


def digests_of(names: Sequence[bytes | None]) -> pa.FixedSizeBinaryArray:
    """A digest of each name, null for null."""
    found = [None if name is None else blake2b(name, digest_size=_BLOCK).digest() for name in names]
    return pa.array(found, DIGEST)


def sign(key: bytes, digests: pa.FixedSizeBinaryArray) -> pa.BinaryArray:
    """The signatures of names with these digests, as hexadecimal text. Where a digest is null, it has no meaning."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    if not len(digests):
        return pa.array([], pa.binary())
    blocks = digests.buffers()[1].slice(digests.offset * _BLOCK, len(digests) * _BLOCK).to_pybytes()
    # Each block is a message of its own, which no other block must influence. That is what this mode is for.
    cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305
    text = cipher.update(blocks).hex().encode()
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(2 * _BLOCK), len(digests), [None, pa.py_buffer(text)]).cast(
        pa.binary()
    )


def is_signed(key: bytes, name: bytes, signature: bytes) -> bool:
    """Whether the signature is that of the name."""
    return hmac.compare_digest(sign(key, digests_of([name]))[0].as_py(), signature)


def signed_urls(key: bytes, before: bytes, names: Column, between: bytes, digests: Column) -> pa.BinaryArray:
    """The URLs of files, of names with these digests; null where a name is."""
    signatures = sign(key, _flat(digests))
    return pc.binary_join_element_wise(pa.scalar(before), _flat(names), pa.scalar(between), signatures, b"")


def _flat(column: Column) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
