from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.api.sharing.provider import Provider, Recipient, open_provider


@pytest.fixture
async def provider(tmp_path: Path) -> AsyncIterator[Provider]:
    async with open_provider(tmp_path) as provider:
        yield provider


@pytest.fixture
def recipient(provider: Provider) -> Recipient:
    return provider.recipient
