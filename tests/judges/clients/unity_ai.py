"""unitycatalog-ai, on functions: it stores Python functions in the catalog and runs them as tools of agents."""

from __future__ import annotations

import asyncio

from unitycatalog.ai.core.client import UnitycatalogFunctionClient
from unitycatalog.client import ApiClient, Configuration

from tests.judges.steps import Place, main


def add(x: int, y: int) -> int:
    """
    Add two numbers.

    Args:
        x: the first number
        y: the second number

    Returns:
        int: the sum
    """
    return x + y


class UnityAI:
    def __init__(self, at: Place) -> None:
        # The HTTP client has to be created in the event loop that unitycatalog-ai uses later.
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        self.client = UnitycatalogFunctionClient(loop.run_until_complete(connect(at)), execution_mode="local")
        self.at = at
        self.name = f"lake.{at.namespace}.add"
        self.client.uc.create_schema(name=at.namespace, catalog_name="lake")

    def create(self) -> None:
        self.client.create_python_function(func=add, catalog="lake", schema=self.at.namespace)

    def read(self) -> None:
        assert str(self.client.execute_function(self.name, {"x": 1, "y": 2}).value) == "3"
        listed = self.client.list_functions(catalog="lake", schema=self.at.namespace)
        assert [function.name for function in listed] == ["add"]

    def drop(self) -> None:
        self.client.delete_function(self.name)
        assert not self.client.list_functions(catalog="lake", schema=self.at.namespace)


async def connect(at: Place) -> ApiClient:
    return ApiClient(Configuration(host=f"{at.url}/api/2.1/unity-catalog"))


if __name__ == "__main__":
    main(UnityAI)
