"""The Unity API, in process."""

from __future__ import annotations

import pytest

from tests.api.house import House
from tests.api.unity.unity import Unity


@pytest.fixture
def uc(house: House) -> Unity:
    return Unity(house.console.http)
