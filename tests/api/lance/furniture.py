"""The table that the examples of the Lance namespace use."""

from __future__ import annotations

from moorage.api.lance.bodies import EXAMPLE_ID, EXAMPLE_LOCATION
from moorage.api.lance.versions import EXAMPLE_VERSION
from moorage.core.callers import LOCAL
from moorage.core.ids import SecurableId
from moorage.core.securables import Doc, TableDoc
from moorage.ledger.port import Ledger
from moorage.testing import builders as make
from moorage.usecases.lance.lookup import LANCE


async def furnish_lance(ledger: Ledger, schema: SecurableId) -> None:
    """A table at the version that the examples create, without files."""
    location = f"{EXAMPLE_LOCATION}/"
    table = make.table(
        schema,
        "vectors",
        id=SecurableId(EXAMPLE_ID),
        path=location,
        doc=Doc(location=location, table=TableDoc(format=LANCE)),
    )
    first = make.commit(
        table.id,
        EXAMPLE_VERSION["version"],
        file="_versions/" + EXAMPLE_VERSION["manifest_path"].rpartition("/")[2],
        size=EXAMPLE_VERSION["manifest_size"],
        timestamp_ms=EXAMPLE_VERSION["timestamp_millis"],
        details={"scheme": EXAMPLE_VERSION["naming_scheme"]},
    )
    await ledger.append(make.draft(table, first, caller=LOCAL.id))
