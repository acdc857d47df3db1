"""Typed access to documents that clients wrote. A value of the wrong type or size raises InvalidInput with its field.

Documents stay plain dictionaries. Unknown fields are kept unchanged.
"""

from __future__ import annotations

from operator import is_
from typing import Any

from moorage.core.errors import InvalidInput

Document = dict[str, Any]

_LARGEST = 2**63 - 1


def text_of(doc: Document, key: str) -> str:
    found = doc.get(key)
    if not isinstance(found, str) or not found:
        raise InvalidInput(f"{key} must be a non-empty string", field=key)
    return found


def number_of(doc: Document, key: str) -> int:
    """A 64-bit integer. JSON has no such limit, but every reader does."""
    found = doc.get(key)
    if not isinstance(found, int) or isinstance(found, bool) or not -_LARGEST - 1 <= found <= _LARGEST:
        raise InvalidInput(f"{key} must be a 64-bit integer", field=key)
    return found


def number_or_none(doc: Document, key: str) -> int | None:
    return None if doc.get(key) is None else number_of(doc, key)


def id_of(doc: Document, key: str) -> int:
    """The id of a column, schema or similar. Java stores ids in 32 bits and cannot read a table with larger ones."""
    found = number_of(doc, key)
    if not -(2**31) <= found < 2**31:
        raise InvalidInput(f"{key} must be a 32-bit integer", field=key)
    return found


def id_or_none(doc: Document, key: str) -> int | None:
    return None if doc.get(key) is None else id_of(doc, key)


def document_of(doc: Document, key: str) -> Document:
    found = doc.get(key)
    if not isinstance(found, dict):
        raise InvalidInput(f"{key} must be an object", field=key)
    return found


def documents_of(doc: Document, key: str) -> list[Document]:
    found = doc.get(key)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise InvalidInput(f"{key} must be a list of objects", field=key)
    return found


def numbers_of(doc: Document, key: str) -> list[int]:
    return [number_of({key: each}, key) for each in _list_of(doc, key)]


def ids_of(doc: Document, key: str) -> list[int]:
    return [id_of({key: each}, key) for each in _list_of(doc, key)]


def _list_of(doc: Document, key: str) -> list[Any]:
    found = doc.get(key)
    if not isinstance(found, list):
        raise InvalidInput(f"{key} must be a list of integers", field=key)
    return found


def texts_of(doc: Document, key: str) -> list[str]:
    found = doc.get(key)
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise InvalidInput(f"{key} must be a list of strings", field=key)
    return found


def properties_of(doc: Document, key: str) -> dict[str, str]:
    found = doc.get(key)
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise InvalidInput(f"{key} must be an object with string values", field=key)
    return found


def without_nulls(part: Any) -> Any:
    """A copy without nulls. A null value is treated as absent, because Java refuses nulls in optional fields."""
    if isinstance(part, dict):
        return {key: without_nulls(value) for key, value in part.items() if value is not None}
    return [without_nulls(each) for each in part] if isinstance(part, list) else part


def with_id(documents: list[Document], key: str, id: int | str) -> Document | None:
    """The schema, spec, order, snapshot or key with this id; None if there is none."""
    return next((each for each in documents if each.get(key) == id), None)


def gained(before: list[Document], after: list[Document]) -> list[Document] | None:
    """The items appended to a list; None if it differs in another way. Compared by identity, because 1 equals true."""
    if after is before:
        return []
    return after[len(before) :] if len(before) <= len(after) and all(map(is_, before, after)) else None


def without(doc: Document, *keys: str) -> Document:
    return {key: value for key, value in doc.items() if key not in keys}
