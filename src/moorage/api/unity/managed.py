"""Managed tables: the catalog gives them their place and ratifies their commits."""

from __future__ import annotations

from moorage.api.unity.table_bodies import CreateTable
from moorage.core.errors import Unsupported
from moorage.http import Answer, Call, NoQuery
from moorage.usecases.ports import Ports


async def create_managed(call: Call[CreateTable, NoQuery], ports: Ports) -> Answer:
    raise Unsupported("this server does not create managed tables")
