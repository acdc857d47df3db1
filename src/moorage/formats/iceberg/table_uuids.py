"""The UUID in the metadata of a table or view."""

from __future__ import annotations

import re

from moorage.core.errors import InvalidInput
from moorage.formats.iceberg.documents import Document, text_of

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def require_uuid(doc: Document, key: str) -> str:
    found = text_of(doc, key)
    if not _UUID.fullmatch(found):
        raise InvalidInput(f"{key}: {found!r} is not a UUID", field=key)
    return found
