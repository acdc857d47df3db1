"""One storage over the local disk and the object stores; the root selects the store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from moorage.storage.port import Listed, NewObject, Placed, Storage


class Stores:
    """Roots on local disk are in `local`, which also refuses roots of unknown stores. `find` returns all others."""

    def __init__(self, *, local: Storage, find: Callable[[str], Awaitable[Storage | None]] | None = None) -> None:
        self._local = local
        self._find = find

    @property
    def locations(self) -> tuple[str, ...]:
        return self._local.locations

    async def _of(self, root: str) -> Storage:
        if self._find is None or root.startswith("file:"):
            return self._local
        return await self._find(root) or self._local

    async def read(self, root: str, path: str, *, limit: int) -> bytes | None:
        return await (await self._of(root)).read(root, path, limit=limit)

    async def read_range(self, root: str, path: str, *, start: int, end: int) -> bytes | None:
        return await (await self._of(root)).read_range(root, path, start=start, end=end)

    async def size(self, root: str, path: str) -> int | None:
        return await (await self._of(root)).size(root, path)

    async def is_missing(self, root: str, *paths: str, remote: bool = False) -> bool:
        return await (await self._of(root)).is_missing(root, *paths, remote=remote)

    async def list(self, root: str, prefix: str, *, after: str = "") -> tuple[Listed, ...]:
        return await (await self._of(root)).list(root, prefix, after=after)

    async def put_new(self, root: str, path: str, data: bytes) -> bool:
        return await (await self._of(root)).put_new(root, path, data)

    async def put_all_new(self, objects: Sequence[NewObject]) -> Sequence[Placed]:
        by_store: dict[int, tuple[Storage, list[int]]] = {}
        for number, each in enumerate(objects):
            store = await self._of(each.root)
            by_store.setdefault(id(store), (store, []))[1].append(number)
        placed: dict[int, Placed] = {}
        for store, own in by_store.values():
            placed.update(zip(own, await store.put_all_new([objects[number] for number in own]), strict=True))
        return [placed[number] for number in range(len(objects))]

    async def overwrite(self, root: str, path: str, data: bytes) -> None:
        await (await self._of(root)).overwrite(root, path, data)

    async def put_unique(self, root: str, path: str, data: bytes) -> bool:
        return await (await self._of(root)).put_unique(root, path, data)

    async def sync(self) -> None:
        await self._local.sync()  # object stores are durable with every write

    async def make_durable(self, root: str, path: str) -> None:
        await (await self._of(root)).make_durable(root, path)

    async def link(self, root: str, path: str, name: str, *, data: bytes | None = None) -> bool:
        return await (await self._of(root)).link(root, path, name, data=data)

    async def unlink(self, root: str, path: str) -> None:
        await (await self._of(root)).unlink(root, path)

    async def delete(self, root: str, path: str) -> None:
        await (await self._of(root)).delete(root, path)

    async def delete_many(self, root: str, paths: Sequence[str]) -> None:
        await (await self._of(root)).delete_many(root, paths)

    async def delete_all(self, root: str) -> None:
        await (await self._of(root)).delete_all(root)
