"""Changes of an object's description, owner and name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from moorage.core.securables import Doc


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """What to change about an object. None keeps the current value."""

    comment: str | None = None
    owner: str | None = None
    properties: dict[str, str] | None = None
    """All properties: a property that is absent here is removed."""
    details: Mapping[str, Any] = {}
    """Entries of the record's details to change; None removes an entry."""
    new_name: str | None = None


def apply_revision(doc: Doc, revision: Revision) -> Doc:
    """The record after the revision."""
    details = {**doc.details, **revision.details}
    return replace(
        doc,
        comment=doc.comment if revision.comment is None else revision.comment,
        properties=doc.properties if revision.properties is None else revision.properties,
        details={key: value for key, value in details.items() if value is not None},
    )
