"""One storage over two stores; the scheme of a root selects the store."""

from __future__ import annotations

from collections.abc import Sequence

from moorage.storage.port import Listed, NewObject, Placed, Storage


class Stores:
    """Roots that begin with s3:// are in `s3`. All others are in `local`, which refuses roots that it does not know."""

    def __init__(self, *, local: Storage, s3: Storage) -> None:
        self._local = local
        self._s3 = s3

    @property
    def locations(self) -> tuple[str, ...]:
        return *self._local.locations, *self._s3.locations

    def _of(self, root: str) -> Storage:
        return self._s3 if root.startswith("s3://") else self._local

    async def read(self, root: str, path: str, *, limit: int) -> bytes | None:
        return await self._of(root).read(root, path, limit=limit)

    async def read_range(self, root: str, path: str, *, start: int, end: int) -> bytes | None:
        return await self._of(root).read_range(root, path, start=start, end=end)

    async def size(self, root: str, path: str) -> int | None:
        return await self._of(root).size(root, path)

    async def is_missing(self, root: str, *paths: str, remote: bool = False) -> bool:
        return await self._of(root).is_missing(root, *paths, remote=remote)

    async def list(self, root: str, prefix: str, *, after: str = "") -> tuple[Listed, ...]:
        return await self._of(root).list(root, prefix, after=after)

    async def put_new(self, root: str, path: str, data: bytes) -> bool:
        return await self._of(root).put_new(root, path, data)

    async def put_all_new(self, objects: Sequence[NewObject]) -> Sequence[Placed]:
        placed: dict[int, Placed] = {}
        for store in (self._local, self._s3):
            own = [number for number, each in enumerate(objects) if self._of(each.root) is store]
            placed.update(zip(own, await store.put_all_new([objects[number] for number in own]), strict=True))
        return [placed[number] for number in range(len(objects))]

    async def overwrite(self, root: str, path: str, data: bytes) -> None:
        await self._of(root).overwrite(root, path, data)

    async def put_unique(self, root: str, path: str, data: bytes) -> bool:
        return await self._of(root).put_unique(root, path, data)

    async def sync(self) -> None:
        await self._local.sync()
        await self._s3.sync()

    async def make_durable(self, root: str, path: str) -> None:
        await self._of(root).make_durable(root, path)

    async def link(self, root: str, path: str, name: str, *, data: bytes | None = None) -> bool:
        return await self._of(root).link(root, path, name, data=data)

    async def unlink(self, root: str, path: str) -> None:
        await self._of(root).unlink(root, path)

    async def delete(self, root: str, path: str) -> None:
        await self._of(root).delete(root, path)

    async def delete_many(self, root: str, paths: Sequence[str]) -> None:
        await self._of(root).delete_many(root, paths)

    async def delete_all(self, root: str) -> None:
        await self._of(root).delete_all(root)
