"""The objects that the API examples of the Delta families use."""

from __future__ import annotations

from moorage.api.delta.bodies import EXAMPLE_COMMIT, EXAMPLE_ID, EXAMPLE_LOCATION, EXAMPLE_STAGING_ID, EXAMPLE_TABLE
from moorage.core.callers import LOCAL
from moorage.core.ids import SecurableId
from moorage.core.securables import Doc
from moorage.formats.delta.actions import read_commit
from moorage.formats.delta.contract import first_state
from moorage.ledger.port import Ledger
from moorage.testing import builders as make
from moorage.testing import delta_writer as write
from moorage.usecases.delta.lookup import apply_state


async def furnish_delta(ledger: Ledger, schema: SecurableId) -> None:
    """Create a managed table at the version that the examples commit, and a staging table, both without files."""
    first = write.lines(
        write.commit_info(EXAMPLE_COMMIT["timestamp"] - 1),
        write.protocol(),
        write.metadata(write.configuration(EXAMPLE_ID)),
    )
    state = first_state(read_commit(first), table_id=EXAMPLE_ID)
    location = EXAMPLE_LOCATION + "/"
    table = make.table(
        schema,
        EXAMPLE_TABLE["table"],
        id=SecurableId(EXAMPLE_ID),
        path=location,
        doc=apply_state(Doc(location=location), state),
    )
    staging_location = f"file:///data/managed/tables/{EXAMPLE_STAGING_ID}/"
    ratified = make.commit(
        table.id,
        1,
        file=EXAMPLE_COMMIT["file-name"],
        size=EXAMPLE_COMMIT["file-size"],
        timestamp_ms=EXAMPLE_COMMIT["timestamp"],
        details={"modified_ms": EXAMPLE_COMMIT["file-modification-timestamp"]},
    )
    staging_table = make.stage(
        schema,
        staging_location,
        1000,
        id=SecurableId(EXAMPLE_STAGING_ID),
        owner=LOCAL.name,
        doc=Doc(location=staging_location),
    )
    first_version = make.commit(table.id, 0, timestamp_ms=EXAMPLE_COMMIT["timestamp"] - 1)
    await ledger.append(make.draft(table, first_version, ratified, staging_table, caller=LOCAL.id))
