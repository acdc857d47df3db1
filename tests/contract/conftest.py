"""The kits live in the package; without this their asserts would fail without telling why."""

import pytest

pytest.register_assert_rewrite("moorage.testing.ledger_kit", "moorage.testing.storage_kit")
