"""Objects in an S3 store. A put is atomic and durable, and If-None-Match refuses a name that exists."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, InvalidPathError
from obstore.store import S3Store

from moorage.core.errors import InvalidInput, TooLarge, Unavailable
from moorage.storage.confine import require_key
from moorage.storage.port import Listed, NewObject, Placed
from moorage.storage.s3_account import S3Account, bucket_and_key

if TYPE_CHECKING:
    from obstore.store import S3Credential

_NO_LIMIT = 1 << 40
_MOST_KEYS = 1000
"""The limit of keys in one delete request."""
_MOST_CONCURRENT = 8
_ERROR_BODY = re.compile(r"<Code>([^<]*)</Code>.*?<Message>([^<]*)</Message>", re.DOTALL)


class S3Storage:
    """Objects below the locations of an account. All other locations are refused."""

    def __init__(self, account: S3Account) -> None:
        self._account = account
        self._stores = {bucket: _store(account, bucket) for bucket in account.buckets}

    @property
    def locations(self) -> tuple[str, ...]:
        return self._account.locations

    async def reach(self) -> None:
        """Raise Unavailable, with the reason, if the locations cannot be listed with this key and endpoint."""
        for location in self._account.locations:
            store, key = self._find(location)
            try:
                with _translated_errors(f"{location} at {self._account.endpoint}"):
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
        if await self.put_new(*each):
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
        if f"{root.rstrip('/')}/" in self._account.locations:
            raise InvalidInput(f"{root!r} is a storage root of this server and cannot be deleted", field="location")
        with _translated_errors(root):
            async for chunk in obstore.list(store, key, chunk_size=_MOST_KEYS):
                await obstore.delete_async(store, [each["path"] for each in chunk])

    def _find(self, root: str) -> tuple[S3Store, str]:
        """Return the bucket that contains a root, and the key prefix of its objects."""
        location = f"{root.rstrip('/')}/"
        if not self._account.holds(location):
            raise InvalidInput(
                f"{root!r} is outside the locations that this server may use: {', '.join(self._account.locations)}",
                field="location",
            )
        bucket, key = bucket_and_key(location)
        if key:
            require_key(key.removesuffix("/"), "location")
        return self._stores[bucket], key

    def _key(self, root: str, path: str) -> tuple[S3Store, str]:
        require_key(path)
        store, key = self._find(root)
        return store, key + path


async def presign(account: S3Account, root: str, paths: Sequence[str], *, seconds: int) -> list[str]:
    """Return URLs that read one object below a root each, for this long."""
    bucket, key = bucket_and_key(root)
    keys = [key + require_key(path) for path in paths]
    with _translated_errors(root):
        return list(await obstore.sign_async(_signing_store(account, bucket), "GET", keys, timedelta(seconds=seconds)))


@lru_cache(maxsize=64)
def _signing_store(account: S3Account, bucket: str) -> S3Store:
    return _store(account, bucket)


def _store(account: S3Account, bucket: str) -> S3Store:
    address = account.address_of(bucket)

    def key() -> S3Credential:
        return {
            "access_key_id": account.key.access_key_id,
            "secret_access_key": account.key.secret_access_key,
            "token": account.key.token,
            "expires_at": None,
        }

    return S3Store(
        bucket,
        # All options are explicit, so that obstore takes none from the server's environment variables.
        endpoint=address,
        aws_endpoint_url_s3=address,
        region=account.region,
        virtual_hosted_style_request=not account.path_style,
        skip_signature=False,
        credential_provider=key,
        client_options={"allow_http": True, "connect_timeout": "5s", "timeout": "30s"},
        retry_config={"max_retries": 3, "retry_timeout": timedelta(seconds=20)},
    )


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
