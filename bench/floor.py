"""`python -m bench.floor PORT`: a server that returns the same bytes for every request.

Its cost is the part of our server's cost that the machine causes: sockets, event loop, and the client beside it.
"""

from __future__ import annotations

import asyncio
import sys
from typing import cast

import uvloop

_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 400\r\n\r\n" + b" " * 400


class _Fixed(asyncio.Protocol):
    _transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(_ANSWER)


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(_Fixed, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1])))
