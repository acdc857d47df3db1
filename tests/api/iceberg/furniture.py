"""The table and the view that the examples of the Iceberg API use."""

from __future__ import annotations

from typing import Any

import msgspec

from moorage.api.iceberg.bodies import EXAMPLE_ID, EXAMPLE_METADATA, EXAMPLE_TABLE
from moorage.api.iceberg.views import EXAMPLE_VIEW, EXAMPLE_VIEW_METADATA
from moorage.core.callers import LOCAL
from moorage.core.entries import Attachment
from moorage.core.ids import SecurableId
from moorage.core.securables import MAIN, Doc, Kind, TableDoc
from moorage.formats.iceberg.packed import pack
from moorage.testing import builders as make
from moorage.usecases.iceberg.lookup import ICEBERG
from moorage.usecases.iceberg.tables import doc_from_metadata
from moorage.usecases.ports import Ports

VIEW_ID = "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d76"


async def furnish_iceberg(ports: Ports, schema: SecurableId) -> None:
    """Create a managed table without rows and a view, in the namespace `sample.sales`."""
    location = f"{ports.roots.managed}tables/{EXAMPLE_ID}/"
    doc = doc_from_metadata(Doc(location=location), EXAMPLE_METADATA)
    await _put(ports, schema, Kind.TABLE, EXAMPLE_TABLE["table"], EXAMPLE_ID, doc, EXAMPLE_METADATA)
    location = f"{ports.roots.managed}views/{VIEW_ID}/"
    doc = Doc(location=location, table=TableDoc(format=ICEBERG, managed=False))
    await _put(ports, schema, Kind.VIEW, EXAMPLE_VIEW["view"], VIEW_ID, doc, EXAMPLE_VIEW_METADATA)


async def _put(
    ports: Ports, schema: SecurableId, kind: Kind, name: str, id: str, doc: Doc, example: dict[str, Any]
) -> None:
    location, file = doc.location or "", "metadata/00000-first.metadata.json"
    metadata = {**example, "location": location.rstrip("/")}
    document = msgspec.json.encode({"metadata-location": location + file, "metadata": metadata})
    made = make.create(kind, schema, name, id=SecurableId(id), doc=doc, place=location)
    first = make.commit(made.id, 0, file=location + file, size=len(document))
    attachment = Attachment(table=made.id, ref=MAIN, version=0, document=pack(document))
    await ports.storage.put_new(location, file, msgspec.json.encode(metadata))
    await ports.ledger.append(make.draft(made, first, attachments=[attachment], caller=LOCAL.id))
