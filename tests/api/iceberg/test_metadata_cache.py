"""The cache of metadata: the next commit finds the document that the previous one made, decoded."""

from __future__ import annotations

import msgspec

from moorage.usecases.iceberg import metadata_files
from moorage.usecases.iceberg.metadata_files import Metadata, load_metadata
from tests.api.house import done
from tests.api.iceberg.lake import Lake


async def test_metadata_that_was_made_here_replaces_what_a_load_has_read(lake: Lake) -> None:
    created = await lake.create("t")
    ports = lake.house.ports
    table = (await lake.house.ledger.lineage(done(created)["metadata"]["table-uuid"])).chain[-1]
    ports.local.clear_caches()
    loaded = await load_metadata(ports, table)
    made = Metadata.new(loaded.location, msgspec.json.decode(loaded.body))
    metadata_files.cache_metadata(ports, table.id, 0, made)
    assert await load_metadata(ports, table) is made
