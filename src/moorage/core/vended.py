"""Temporary credentials that clients get for the files of one object."""

from __future__ import annotations

from typing import NamedTuple


class StoreSettings(NamedTuple):
    """What a client must know to reach the object store. None of it is secret."""

    endpoint: str
    region: str
    path_style: bool


class VendedKey(NamedTuple):
    """A key for a client, valid for the locations that it was vended for until it expires."""

    access_key_id: str
    secret_access_key: str
    session_token: str
    expires_at_ms: int

    def __repr__(self) -> str:
        """Omits the secrets, because this text may be logged."""
        return f"VendedKey({self.access_key_id} until {self.expires_at_ms})"


class VendedToken(NamedTuple):
    """A Google Cloud token for a client, valid for the locations that it was vended for until it expires."""

    token: str
    expires_at_ms: int

    def __repr__(self) -> str:
        return f"VendedToken(until {self.expires_at_ms})"


class VendedSas(NamedTuple):
    """An Azure shared access signature for a client, valid for one folder until it expires."""

    account: str
    """The host of the storage account, such as lake.dfs.core.windows.net."""
    sas_token: str
    expires_at_ms: int

    def __repr__(self) -> str:
        return f"VendedSas({self.account} until {self.expires_at_ms})"


Vended = VendedKey | VendedToken | VendedSas
