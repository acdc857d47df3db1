"""The table that the examples of the Iceberg API speak of."""

from __future__ import annotations

import msgspec

from moorage.api.iceberg.bodies import EXAMPLE_ID, EXAMPLE_METADATA, EXAMPLE_TABLE
from moorage.core.callers import LOCAL
from moorage.core.entries import Attachment
from moorage.core.ids import SecurableId
from moorage.core.securables import MAIN, Doc
from moorage.testing import builders as make
from moorage.usecases.iceberg_tables import described
from moorage.usecases.ports import Ports


async def furnish_iceberg(ports: Ports, schema: SecurableId) -> None:
    """A managed table without rows in the namespace `sample.sales`."""
    id = SecurableId(EXAMPLE_ID)
    place = f"{ports.managed_root}tables/{id}/"
    metadata = {**EXAMPLE_METADATA, "location": place.rstrip("/")}
    file = f"{place}metadata/00000-first.metadata.json"
    document = msgspec.json.encode({"metadata-location": file, "metadata": metadata})
    table = make.table(schema, EXAMPLE_TABLE["table"], id=id, path=place, doc=described(Doc(location=place), metadata))
    first = make.commit(id, 0, file=file, size=len(document), timestamp_ms=metadata["last-updated-ms"])
    kept = Attachment(table=id, ref=MAIN, version=0, document=document)
    await ports.storage.put_new(place, "metadata/00000-first.metadata.json", msgspec.json.encode(metadata))
    await ports.ledger.append(make.draft(table, first, attachments=[kept], caller=LOCAL.id))
