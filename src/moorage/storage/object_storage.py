"""Objects in an object store. A put is atomic and durable, and a conditional put refuses a name that exists."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, InvalidPathError

from moorage.core.errors import InvalidInput, TooLarge, Unavailable
from moorage.storage.confine import require_key
from moorage.storage.port import Listed, NewObject, Placed
from moorage.storage.s3_account import bucket_and_key

if TYPE_CHECKING:
    from obstore.store import AzureStore, GCSStore, S3Store

    Bucket = AzureStore | GCSStore | S3Store

_NO_LIMIT = 1 << 40
_MOST_KEYS = 1000
"""The limit of keys in one delete request."""
_MOST_CONCURRENT = 8
_ERROR_BODY = re.compile(r"<Code>([^<]*)</Code>.*?<Message>([^<]*)</Message>", re.DOTALL)


class ObjectStorage:
    """Objects below some locations of one store. All other locations are refused."""

    def __init__(
        self,
        address: str,
        locations: tuple[str, ...],
        open_bucket: Callable[[str], Bucket],
        to_signed_path: Callable[[str], str] = str,
    ) -> None:
        """`address` is for error messages. `open_bucket` opens a bucket, which is the host of a location.

        `to_signed_path` is for a store whose signer must be given the encoded path of the URL instead of the key.
        """
        self._address = address
        self._to_signed_path = to_signed_path
        self._locations = locations
        self._stores = {bucket: open_bucket(bucket) for bucket in {bucket_and_key(each)[0] for each in locations}}

    @property
    def locations(self) -> tuple[str, ...]:
        return self._locations

    async def reach(self) -> None:
        """Raise Unavailable, with the reason, if the locations cannot be listed with this key and endpoint."""
        for location in self._locations:
            store, key = self._find(location)
            try:
                with _translated_errors(f"{location} at {self._address}"):
                    async for _ in obstore.list(store, key or None, chunk_size=1):
                        break
            except Unavailable as error:
                raise Unavailable(f"{error.message}; check s3_endpoint, s3_locations and the key") from error

    async def read(self, root: str, path: str, *, limit: int) -> bytes | None:
        store, key = self._key(root, path)
        with _translated_errors(path):
            try:
                found = await obstore.get_async(store, key)
            except FileNotFoundError:
                return None
            if found.meta["size"] > limit:
                raise TooLarge(f"{path} is larger than {limit} bytes", field="path")
            return bytes(await found.bytes_async())

    async def read_range(self, root: str, path: str, *, start: int, end: int) -> bytes | None:
        store, key = self._key(root, path)
        with _translated_errors(path):
            try:
                size = (await obstore.head_async(store, key))["size"]
                if start >= min(end, size):
                    return b""
                return bytes(await obstore.get_range_async(store, key, start=start, end=min(end, size)))
            except FileNotFoundError:
                return None

    async def size(self, root: str, path: str) -> int | None:
        store, key = self._key(root, path)
        with _translated_errors(path):
            try:
                return (await obstore.head_async(store, key))["size"]
            except FileNotFoundError:
                return None

    async def is_missing(self, root: str, *paths: str, remote: bool = False) -> bool:
        for path in paths:
            self._key(root, path)
        return remote and all(size is None for size in await asyncio.gather(*(self.size(root, path) for path in paths)))

    async def list(self, root: str, prefix: str, *, after: str = "") -> tuple[Listed, ...]:
        store, key = self._find(root)
        # obstore matches whole path segments only, so the last, partial segment is compared here.
        folder = key + prefix.rpartition("/")[0]
        found = []
        with _translated_errors(prefix):
            async for chunk in obstore.list(store, folder or None, offset=key + after if after else None):
                found += [
                    Listed(each["path"][len(key) :], each["size"], int(each["last_modified"].timestamp() * 1000))
                    for each in chunk
                    if each["path"].startswith(key + prefix)
                ]
        return tuple(sorted(found))

    async def put_new(self, root: str, path: str, data: bytes) -> bool:
        store, key = self._key(root, path)
        with _translated_errors(path):
            try:
                await obstore.put_async(store, key, data, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
        return True

    async def put_all_new(self, objects: Sequence[NewObject]) -> Sequence[Placed]:
        by_root: dict[str, list[int]] = {}
        for number, each in enumerate(objects):
            by_root.setdefault(each.root, []).append(number)
        placed = [Placed.SKIPPED] * len(objects)
        lines = asyncio.Semaphore(_MOST_CONCURRENT)

        async def put(numbers: list[int]) -> None:
            async with lines:
                for number in numbers:
                    placed[number] = await self._place(objects[number])
                    if placed[number] is Placed.OTHER:
                        return

        await asyncio.gather(*map(put, by_root.values()))
        return placed

    async def _place(self, each: NewObject) -> Placed:
        if await self.put_new(each.root, each.path, each.data):
            return Placed.NEW
        with suppress(TooLarge):
            if await self.read(each.root, each.path, limit=len(each.data)) == each.data:
                return Placed.SAME
        return Placed.OTHER

    async def overwrite(self, root: str, path: str, data: bytes) -> None:
        store, key = self._key(root, path)
        with _translated_errors(path):
            await obstore.put_async(store, key, data, use_multipart=False)

    async def put_unique(self, root: str, path: str, data: bytes) -> bool:
        # obstore retries a put whose response was lost, and the retry then finds the first object.
        if not await self.put_new(root, path, data) and await self.read(root, path, limit=_NO_LIMIT) != data:
            raise Unavailable(f"cannot use {path}: it already exists with other content")
        return True

    async def sync(self) -> None:
        pass  # every put is durable

    async def make_durable(self, root: str, path: str) -> None:
        pass  # every put is durable, also those of clients

    async def link(self, root: str, path: str, name: str, *, data: bytes | None = None) -> bool:
        """Write a second object with the same bytes. The store's own copy would overwrite an existing object."""
        other = path[: path.rfind("/") + 1] + name
        try:
            data = data if data is not None else await self.read(root, path, limit=_NO_LIMIT)
            if data is None:
                return False
            return await self.put_new(root, other, data) or await self.read(root, other, limit=_NO_LIMIT) == data
        except Unavailable:
            return False

    async def unlink(self, root: str, path: str) -> None:
        await self.delete(root, path)  # `link` wrote a second object

    async def delete(self, root: str, path: str) -> None:
        store, key = self._key(root, path)
        with _translated_errors(path):
            await obstore.delete_async(store, key)

    async def delete_many(self, root: str, paths: Sequence[str]) -> None:
        store, key = self._find(root)
        keys = [key + require_key(path) for path in paths]
        with _translated_errors(root):
            for start in range(0, len(keys), _MOST_KEYS):
                await obstore.delete_async(store, keys[start : start + _MOST_KEYS])

    async def delete_all(self, root: str) -> None:
        store, key = self._find(root)
        if f"{root.rstrip('/')}/" in self._locations:
            raise InvalidInput(f"{root!r} is a storage root of this server and cannot be deleted", field="location")
        with _translated_errors(root):
            async for chunk in obstore.list(store, key, chunk_size=_MOST_KEYS):
                await obstore.delete_async(store, [each["path"] for each in chunk])

    async def presign(self, root: str, paths: Sequence[str], *, seconds: int) -> Sequence[str]:
        """Return URLs that read one object below a root each, for this long."""
        store, key = self._find(root)
        keys = [self._to_signed_path(key + require_key(path)) for path in paths]
        with _translated_errors(root):
            return await obstore.sign_async(store, "GET", keys, timedelta(seconds=seconds))

    def _find(self, root: str) -> tuple[Bucket, str]:
        """Return the bucket that contains a root, and the key prefix of its objects."""
        location = f"{root.rstrip('/')}/"
        if not location.startswith(self._locations):
            raise InvalidInput(
                f"{root!r} is outside the locations that this server may use: {', '.join(self._locations)}",
                field="location",
            )
        bucket, key = bucket_and_key(location)
        if key:
            require_key(key.removesuffix("/"), "location")
        return self._stores[bucket], key

    def _key(self, root: str, path: str) -> tuple[Bucket, str]:
        require_key(path)
        store, key = self._find(root)
        return store, key + path


@contextmanager
def _translated_errors(path: str) -> Iterator[None]:
    """Translate errors of the store into errors of the core."""
    try:
        yield
    except InvalidPathError as error:
        raise InvalidInput(f"the path {path!r} is not a valid object name", field="path") from error
    except (BaseError, OSError) as error:
        raise Unavailable(f"cannot use {path}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """Return one line: the store's error code and message, or else why the request failed, without its URL."""
    text = str(error)
    answer = _ERROR_BODY.search(text)
    return f"{answer[1]}: {answer[2]}" if answer else text.strip().partition("\n")[0].rpartition(" - ")[2]
