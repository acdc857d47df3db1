"""Objects in a store that speaks S3: a put is durable and whole, and If-None-Match makes it the first of its name."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, InvalidPathError
from obstore.store import S3Store

from moorage.core.errors import InvalidInput, TooLarge, Unavailable
from moorage.storage.confine import require_key
from moorage.storage.port import Listed
from moorage.storage.s3_account import S3Account, bucket_and_key

if TYPE_CHECKING:
    from obstore.store import S3Credential

_MUCH = 1 << 40
_MOST_AT_ONCE = 1000
"""Keys in one request to delete."""
_SAID = re.compile(r"<Code>([^<]*)</Code>.*?<Message>([^<]*)</Message>", re.DOTALL)


class S3Storage:
    """Objects below the places of an account, and nowhere else."""

    def __init__(self, account: S3Account) -> None:
        self._account = account
        self._stores = {bucket: _store(account, bucket) for bucket in account.buckets}

    @property
    def locations(self) -> tuple[str, ...]:
        return self._account.places

    async def reach(self) -> None:
        """Unavailable, with the reason, if the key or the network does not lead to the places."""
        for place in self._account.places:
            store, key = self._find(place)
            try:
                with _telling(f"{place} at {self._account.endpoint}"):
                    async for _ in obstore.list(store, key or None, chunk_size=1):
                        break
            except Unavailable as error:
                raise Unavailable(f"{error.message}; check s3_endpoint, s3_locations and the key") from error

    async def read(self, root: str, path: str, *, limit: int) -> bytes | None:
        store, key = self._key(root, path)
        with _telling(path):
            try:
                found = await obstore.get_async(store, key)
            except FileNotFoundError:
                return None
            if found.meta["size"] > limit:
                raise TooLarge(f"{path} is larger than {limit} bytes", field="path")
            return bytes(await found.bytes_async())

    async def size(self, root: str, path: str) -> int | None:
        store, key = self._key(root, path)
        with _telling(path):
            try:
                return (await obstore.head_async(store, key))["size"]
            except FileNotFoundError:
                return None

    async def is_gone(self, root: str, *paths: str, ask: bool = False) -> bool:
        for path in paths:
            self._key(root, path)
        return ask and all(size is None for size in await asyncio.gather(*(self.size(root, path) for path in paths)))

    async def list(self, root: str, prefix: str, *, after: str = "") -> tuple[Listed, ...]:
        store, key = self._find(root)
        # The store looks for whole names only, so what begins like the last one is picked out here.
        folder = key + prefix.rpartition("/")[0]
        found = []
        with _telling(prefix):
            async for chunk in obstore.list(store, folder or None, offset=key + after if after else None):
                found += [
                    Listed(each["path"][len(key) :], each["size"], int(each["last_modified"].timestamp() * 1000))
                    for each in chunk
                    if each["path"].startswith(key + prefix)
                ]
        return tuple(sorted(found))

    async def put_new(self, root: str, path: str, data: bytes) -> bool:
        store, key = self._key(root, path)
        with _telling(path):
            try:
                await obstore.put_async(store, key, data, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
        return True

    async def put_again(self, root: str, path: str, data: bytes) -> None:
        store, key = self._key(root, path)
        with _telling(path):
            await obstore.put_async(store, key, data, use_multipart=False)

    async def put_unique(self, root: str, path: str, data: bytes) -> bool:
        # A put whose answer was lost is sent again, and then meets itself.
        if not await self.put_new(root, path, data) and await self.read(root, path, limit=_MUCH) != data:
            raise Unavailable(f"cannot use {path}: it exists already")
        return True

    async def sync(self) -> None:
        pass  # every put is durable

    async def keep(self, root: str, path: str) -> None:
        pass  # whoever made it

    async def link(self, root: str, path: str, name: str, *, data: bytes | None = None) -> bool:
        """By a second object with the same bytes. A copy made by the store would replace what has the name already."""
        other = path[: path.rfind("/") + 1] + name
        try:
            data = data if data is not None else await self.read(root, path, limit=_MUCH)
            if data is None:
                return False
            return await self.put_new(root, other, data) or await self.read(root, other, limit=_MUCH) == data
        except Unavailable:
            return False

    async def delete(self, root: str, path: str) -> None:
        store, key = self._key(root, path)
        with _telling(path):
            await obstore.delete_async(store, key)

    async def delete_these(self, root: str, paths: Sequence[str]) -> None:
        store, key = self._find(root)
        keys = [key + require_key(path) for path in paths]
        with _telling(root):
            for start in range(0, len(keys), _MOST_AT_ONCE):
                await obstore.delete_async(store, keys[start : start + _MOST_AT_ONCE])

    async def delete_all(self, root: str) -> None:
        store, key = self._find(root)
        if f"{root.rstrip('/')}/" in self._account.places:
            raise InvalidInput(f"{root!r} is a whole storage root and is never deleted", field="location")
        with _telling(root):
            async for chunk in obstore.list(store, key, chunk_size=_MOST_AT_ONCE):
                await obstore.delete_async(store, [each["path"] for each in chunk])

    def _find(self, root: str) -> tuple[S3Store, str]:
        """The bucket that holds a root, and the key that its objects begin with."""
        place = f"{root.rstrip('/')}/"
        if not self._account.holds(place):
            raise InvalidInput(f"{root!r} lies outside of the places that this server may use", field="location")
        bucket, key = bucket_and_key(place)
        if key:
            require_key(key.removesuffix("/"), "location")
        return self._stores[bucket], key

    def _key(self, root: str, path: str) -> tuple[S3Store, str]:
        require_key(path)
        store, key = self._find(root)
        return store, key + path


def _store(account: S3Account, bucket: str) -> S3Store:
    address = account.address_of(bucket)

    def key() -> S3Credential:
        return {
            "access_key_id": account.key.access_key_id,
            "secret_access_key": account.key.secret_access_key,
            "token": None,
            "expires_at": None,
        }

    return S3Store(
        bucket,
        # Each of them is said, so that nothing comes from the environment of whoever started the server.
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
def _telling(path: str) -> Iterator[None]:
    """What the store answers, in our words."""
    try:
        yield
    except InvalidPathError as error:
        raise InvalidInput(f"the path {path!r} cannot be the name of an object", field="path") from error
    except (BaseError, OSError) as error:
        raise Unavailable(f"cannot use {path}: {_words(error)}") from error


def _words(error: Exception) -> str:
    """One line: what the store said, if it answered; else what happened to the request, without its address."""
    text = str(error)
    said = _SAID.search(text)
    return f"{said[1]}: {said[2]}" if said else text.strip().partition("\n")[0].rpartition(" - ")[2]
