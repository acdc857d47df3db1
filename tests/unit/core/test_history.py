"""How changes apply to an object."""

from msgspec.structs import replace

from moorage import fresh
from moorage.core.entries import Change
from moorage.core.history import changed, created
from moorage.core.securables import Doc, TableDoc, release_files, restore_ownership
from moorage.testing import builders as make

NS = fresh.securable_id()
STAGING = make.stage(NS, "s3://b/s", lifetime_ms=50)
TABLE = make.table(NS, "t", path="s3://b/t")
BEFORE = created(TABLE, 1000, make.ANN)
AFTER = replace(BEFORE, revision=2, updated_at_ms=2000, updated_by=make.BOB)


def test_a_creation_starts_at_revision_one() -> None:
    assert (BEFORE.revision, BEFORE.created_by, BEFORE.updated_at_ms, BEFORE.is_live) == (1, make.ANN, 1000, True)
    assert created(STAGING, 1000, make.ANN).expires_at_ms == 1050


def test_each_change_increments_the_revision_and_records_its_caller() -> None:
    def after(change: Change) -> object:
        return changed(BEFORE, change, 2000, make.BOB)

    assert after(make.update(TABLE.id, comment="c")) == replace(AFTER, doc=Doc(comment="c"))
    assert after(make.update(TABLE.id, owner=make.BOB)) == replace(AFTER, doc=Doc(), owner=make.BOB)
    assert after(make.rename(TABLE.id, STAGING.id, "u")) == replace(AFTER, parent=STAGING.id, name="u")
    dropped = replace(AFTER, dropped_at_ms=2000, purge_at_ms=2007)
    assert after(make.drop(TABLE.id, hold_ms=7)) == dropped
    back = changed(dropped, make.undrop(TABLE.id, "v"), 3000, make.ANN)
    assert back == replace(BEFORE, name="v", revision=3, updated_at_ms=3000, updated_by=make.ANN)
    assert changed(dropped, make.purge(TABLE.id), 3000, make.ANN) == replace(dropped, revision=3, purged=True)


def test_a_commit_does_not_change_the_record() -> None:
    assert changed(BEFORE, make.commit(TABLE.id, 1), 2000, make.BOB) == BEFORE


def test_released_files_are_owned_again_as_before() -> None:
    managed, brought = (Doc(details={"a": 1}, table=TableDoc(format="iceberg", managed=each)) for each in (True, False))
    dropped = release_files(managed)
    assert dropped.table is not None
    assert not dropped.table.managed
    assert restore_ownership(dropped) == managed
    assert restore_ownership(release_files(brought)) == brought == release_files(brought)
