"""What can be set, where it may come from, and what a wrong value is told.

Flags win over the environment (`MOORAGE_PORT`), that wins over the file (`--config`, TOML), that
wins over the defaults. A wrong or unknown setting stops the start and is named with its source: a
server that runs with a misspelt setting runs with a default that nobody chose.
"""

from __future__ import annotations

import difflib
import ipaddress
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_type_hints
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

PREFIX = "MOORAGE_"

NOT_SETTINGS = frozenset({"MOORAGE_CONFIG", "MOORAGE_URL", "MOORAGE_TOKEN", "MOORAGE_SOAK", "MOORAGE_DIE_AT"})
"""Read by the command line, the client and the tests; they set nothing here."""

# A Kubernetes service called "moorage" puts these into every pod of its namespace.
_LEFT_BY_KUBERNETES = re.compile(r"MOORAGE_(SERVICE_(HOST|PORT)|PORT_\d+_)")

_SECRET = frozenset({"database"})


class SettingsError(Exception):
    """One line that names the setting, where it came from, and what would be right."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the server can be told. The descriptions are what a wrong value is answered with."""

    data: Annotated[Path, Meta(description="a folder: the embedded ledger and managed storage live in it")] = Path(
        "moorage-data"
    )
    external_folder: Annotated[
        Path | None,
        Meta(description="a folder outside of the data folder: tables that bring their own location may live in it"),
    ] = None
    host: Annotated[str, Meta(description="an address to listen on, such as 127.0.0.1", min_length=1)] = "127.0.0.1"
    port: Annotated[int, Meta(description="a port from 0 to 65535, where 0 picks a free one", ge=0, le=65535)] = 8080
    database: Annotated[
        str | None,
        Meta(description="a postgresql:// URL; without one the ledger is SQLite in the data folder"),
    ] = None
    public_url: Annotated[
        str | None,
        Meta(description="an http(s):// URL without a query or a final slash: where clients reach this server"),
    ] = None
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="debug, info, warning or error")
    ] = "warning"
    access_log: Annotated[bool, Meta(description="true or false: one log line for every request")] = False
    body_limit_mb: Annotated[
        int, Meta(description="a whole number from 1 to 4096: the largest request body in MB", ge=1, le=4096)
    ] = 64
    request_timeout_seconds: Annotated[
        float, Meta(description="seconds from 0.1 to 3600: how long a request may take", ge=0.1, le=3600)
    ] = 30.0
    stop_timeout_seconds: Annotated[
        float,
        Meta(description="seconds from 0 to 3600: how long a stop waits for open requests", ge=0, le=3600),
    ] = 30.0
    hold_days: Annotated[
        int, Meta(description="whole days from 0 to 3650: for how long a drop can be undone", ge=0, le=3650)
    ] = 7
    key_lifetime_hours: Annotated[
        int,
        Meta(description="whole hours from 1 to 8760: for how long an idempotency key is kept", ge=1, le=8760),
    ] = 24
    managed_tables: Annotated[
        Literal["on", "delta-v1", "off"],
        Meta(
            description="on, delta-v1 or off: managed Delta tables, those of clients of /delta/v1 only, or no new ones"
        ),
    ] = "on"
    chores_interval_seconds: Annotated[
        float,
        Meta(description="seconds from 0.05 to 3600: how often the server looks for chores", ge=0.05, le=3600),
    ] = 2.0
    otlp_endpoint: Annotated[
        str | None,
        Meta(description="an http(s):// URL of an OpenTelemetry collector; needs moorage[otel]"),
    ] = None

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def url_at(self, port: int) -> str:
        """The address to hand out, now that the port is known. Never taken from a Host header."""
        if self.public_url is not None:
            return self.public_url
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{port}"

    def __repr__(self) -> str:
        """Without the database's password: this ends up in logs and bug reports."""
        hidden = {name: "hidden" for name in _SECRET if getattr(self, name) is not None}
        shown = {name: getattr(self, name) for name in self.__struct_fields__} | hidden
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


_HINTS: dict[str, Any] = get_type_hints(Settings, include_extras=True)


class Option(NamedTuple):
    """A setting as `--help` and the documentation show it."""

    name: str
    flag: str
    variable: str
    default: Any
    description: str


def options() -> Iterator[Option]:
    for field in msgspec.structs.fields(Settings):
        yield Option(
            field.name,
            f"--{field.name.replace('_', '-')}",
            f"{PREFIX}{field.name.upper()}",
            field.default,
            _description(field.name),
        )


def load(
    *,
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    config: Path | None = None,
) -> Settings:
    """The settings that hold, or a SettingsError. Flags that are None were not given."""
    environ = environ or {}
    config = config or (Path(environ["MOORAGE_CONFIG"]) if environ.get("MOORAGE_CONFIG") else None)
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for name, value, source, is_text in (
        *_from_file(config),
        *_from_environment(environ),
        *_from_flags(flags or {}),
    ):
        values[name] = _checked(name, value, source, is_text=is_text)
        sources[name] = source
    settings = Settings(**values)
    _check_together(settings, sources)
    return settings


_Given = Iterator[tuple[str, Any, str, bool]]


def _from_file(path: Path | None) -> _Given:
    if path is None:
        return
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"the settings file {path} cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"the settings file {path} is not valid TOML: {error}") from None
    for name, value in document.items():
        _require_known(name, f"{name} in {path}", [option.name for option in options()])
        yield name, value, f"{name} in {path}", False


def _from_environment(environ: Mapping[str, str]) -> _Given:
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or variable in NOT_SETTINGS or _LEFT_BY_KUBERNETES.match(variable):
            continue
        if variable == "MOORAGE_PORT" and value.startswith("tcp://"):
            continue
        _require_known(variable, variable, [option.variable for option in options()])
        yield variable.removeprefix(PREFIX).lower(), value, variable, True


def _from_flags(flags: Mapping[str, Any]) -> _Given:
    for name, value in flags.items():
        if value is not None:
            flag = f"--{name.replace('_', '-')}"
            _require_known(flag, flag, [option.flag for option in options()])
            yield name, value, flag, isinstance(value, str)


def _require_known(name: str, source: str, known: list[str]) -> None:
    if name in known:
        return
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
    raise SettingsError(f"{source} is not a setting; {hint}")


def _checked(name: str, value: Any, source: str, *, is_text: bool) -> Any:
    try:
        return msgspec.convert(value, _HINTS[name], strict=not is_text, dec_hook=_path)
    except msgspec.ValidationError:
        raise _wrong(name, value, source) from None


def _path(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str | Path) and str(value):
        return Path(value)
    raise ValueError(value)


def _wrong(name: str, value: Any, source: str) -> SettingsError:
    given = "is wrong" if name in _SECRET else f"is {value!r}"
    return SettingsError(f"{source} {given}; expected {_description(name)}")


def _description(name: str) -> str:
    meta: Meta = _HINTS[name].__metadata__[0]
    return meta.description or ""


def _check_together(settings: Settings, sources: Mapping[str, str]) -> None:
    for name, schemes in (
        ("database", ("postgresql", "postgres")),
        ("public_url", ("http", "https")),
        ("otlp_endpoint", ("http", "https")),
    ):
        value = getattr(settings, name)
        if value is not None and not _is_url(value, schemes, plain=name == "public_url"):
            raise _wrong(name, value, sources[name])


def _is_url(value: str, schemes: tuple[str, ...], *, plain: bool) -> bool:
    try:
        parts = urlsplit(value)
        return (
            parts.scheme in schemes
            and bool(parts.hostname)
            and parts.port != 0
            and not (plain and (parts.query or parts.fragment or value.endswith("/")))
        )
    except ValueError:
        return False


def require_safe_listen(settings: Settings, *, has_authentication: bool) -> None:
    """Open mode answers yes to everyone, so nobody but this machine may reach it. The worst is said first."""
    if settings.is_loopback:
        return
    missing = []
    if not has_authentication:
        missing.append(
            "authentication is off, so anyone who reaches this port could change every table; "
            "listen on 127.0.0.1, or turn authentication on"
        )
    if settings.public_url is None:
        missing.append(
            "it needs a public_url: the address that this server hands out to clients "
            "(MOORAGE_PUBLIC_URL or --public-url)"
        )
    if missing:
        raise SettingsError(f"refusing to listen on {settings.host}: " + "; besides, ".join(missing))
