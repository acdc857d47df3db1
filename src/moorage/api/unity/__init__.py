"""The Unity Catalog API."""

from moorage.api.unity import capabilities
from moorage.api.unity.api import unity

__all__ = ["capabilities", "unity"]
