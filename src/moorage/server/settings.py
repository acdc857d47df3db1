"""The settings of a server, their sources, and their validation.

Flags override the environment (`MOORAGE_PORT`), which overrides the file (`--config`, TOML), which
overrides the defaults. The server refuses to start with an invalid or unknown setting and names its source:
if it ignored a misspelt setting, it would run with a default that the operator did not choose.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_type_hints
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from moorage.access.browser_logins import BrowserClient
from moorage.access.logins import LoginRules
from moorage.access.oidc import is_issuer_url
from moorage.core.errors import InvalidInput
from moorage.core.hosts import has_ip_address, is_http_url, is_loopback, is_postgres_url
from moorage.core.locations import normalize_location
from moorage.core.networks import parse_addresses
from moorage.storage.s3_account import S3Account, S3Key
from moorage.storage.secrets import parse_keys

PREFIX = "MOORAGE_"

NOT_SETTINGS = frozenset({"MOORAGE_CONFIG", "MOORAGE_URL", "MOORAGE_TOKEN", "MOORAGE_SOAK", "MOORAGE_DIE_AT"})
"""Variables that the command line, the client and the tests read. They are not settings of the server."""

_OF_SPARK = "MOORAGE_SPARK_"
"""The beginning of variables that workers and Spark sessions read."""

# Kubernetes sets these in every pod of a namespace that has a service named "moorage".
_LEFT_BY_KUBERNETES = re.compile(r"MOORAGE_(SERVICE_(HOST|PORT)|PORT_\d+_)")

_SECRET = frozenset({"database", "oidc_client_secret", "s3_secret_access_key", "secret_key"})


class SettingsError(Exception):
    """An invalid setting. The message is one line with the setting, its source, and what is expected."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings of the server. The error for an invalid value quotes the description."""

    data: Annotated[Path, Meta(description="a folder for the embedded ledger and for managed tables")] = Path(
        "moorage-data"
    )
    external_folder: Annotated[
        Path | None,
        Meta(description="a folder outside the data folder: tables with a location of their own may be stored in it"),
    ] = None
    s3_locations: Annotated[
        str | None,
        Meta(description="s3://bucket/folder, or several separated by commas: tables may be stored in them"),
    ] = None
    s3_endpoint: Annotated[
        str | None,
        Meta(description="an http(s):// URL without a path: the address of the object store; if not set, Amazon S3"),
    ] = None
    s3_region: Annotated[str, Meta(description="a region, such as eu-north-1", pattern="^[a-z0-9-]+$")] = "us-east-1"
    s3_access_key_id: Annotated[
        str | None, Meta(description="the id of an access key that may read and write the buckets")
    ] = None
    s3_secret_access_key: Annotated[str | None, Meta(description="the secret of the access key")] = None
    s3_path_style: Annotated[
        bool, Meta(description="true or false: put bucket names in the path; most stores except Amazon S3 require it")
    ] = False
    secret_key: Annotated[
        str | None,
        Meta(description="base64 of 32 bytes: encrypts the secrets of storage credentials; after a comma, former keys"),
    ] = None
    secret_key_file: Annotated[Path | None, Meta(description="a file with such keys, one per line")] = None
    secret_key_command: Annotated[str | None, Meta(description="a command that prints such keys, one per line")] = None
    google_endpoint: Annotated[
        str | None, Meta(description="an http(s):// URL: used instead of Google Cloud's addresses, for tests")
    ] = None
    azure_endpoint: Annotated[
        str | None, Meta(description="an http(s):// URL: used instead of Azure's addresses, for tests")
    ] = None
    managed_location: Annotated[
        str | None,
        Meta(description="an s3:// folder in s3_locations: store managed tables in it, not in the data folder"),
    ] = None
    host: Annotated[str, Meta(description="an address to listen on, such as 127.0.0.1", min_length=1)] = "127.0.0.1"
    port: Annotated[int, Meta(description="a port from 0 to 65535; 0 selects a free port", ge=0, le=65535)] = 8080
    database: Annotated[
        str | None,
        Meta(description="a postgresql:// URL; if not set, the ledger is SQLite in the data folder"),
    ] = None
    public_url: Annotated[
        str | None,
        Meta(description="an http(s):// URL without a query or a trailing slash: where clients reach this server"),
    ] = None
    trusted_proxies: Annotated[
        str | None,
        Meta(description="IP addresses and networks separated by commas: proxies whose X-Forwarded-For is trusted"),
    ] = None
    tls_cert: Annotated[
        Path | None, Meta(description="a file with the certificate and its chain in PEM format: serve HTTPS")
    ] = None
    tls_key: Annotated[
        Path | None,
        Meta(description="a file with the key of the certificate in PEM format, without a password"),
    ] = None
    cors_origins: Annotated[
        str | None,
        Meta(description="http(s):// origins separated by commas: their pages may use the APIs from a browser"),
    ] = None
    rate_limit: Annotated[
        float,
        Meta(
            description="requests per second from 0 to 100000 that each caller may send, with bursts of ten seconds; "
            "0: no limit",
            ge=0,
            le=100_000,
        ),
    ] = 0.0
    auth: Annotated[
        Literal["auto", "on", "off"],
        Meta(description="on: callers need a token; off: loopback only; auto: on if it was on for this ledger before"),
    ] = "auto"
    oidc_issuers: Annotated[
        str | None,
        Meta(description="https:// URLs separated by commas: identity providers of recipients and callers"),
    ] = None
    oidc_audience: Annotated[
        str | None, Meta(description="the audience of tokens by which callers log in; not set: recipients only")
    ] = None
    oidc_name_claim: Annotated[
        str, Meta(description="the claim that names the user, such as email or preferred_username", min_length=1)
    ] = "email"
    oidc_groups_claim: Annotated[str | None, Meta(description="the claim that lists the groups of the user")] = None
    oidc_create_users: Annotated[
        bool, Meta(description="true or false: create a user with its first login through an identity provider")
    ] = False
    oidc_client_id: Annotated[
        str | None,
        Meta(
            description="the ids of this server at the oidc_issuers, for logins with a browser: one each, with commas"
        ),
    ] = None
    oidc_client_secret: Annotated[
        str | None, Meta(description="the secrets for these ids: one each, with commas; not set: public clients")
    ] = None
    audit: Annotated[
        Literal["changes", "all"],
        Meta(description="changes: the audit records changes and refused requests; all: also what callers read"),
    ] = "changes"
    audit_days: Annotated[
        int, Meta(description="whole days from 1 to 3650: how long the audit is kept", ge=1, le=3650)
    ] = 90
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="debug, info, warning or error")
    ] = "warning"
    access_log: Annotated[bool, Meta(description="true or false: write one log line per request")] = False
    body_limit_mb: Annotated[
        int, Meta(description="a whole number from 1 to 4096: the largest request body, in MB", ge=1, le=4096)
    ] = 64
    body_memory_mb: Annotated[
        int,
        Meta(
            description="a whole number from 1 to 65536: memory for all large request bodies together, in MB",
            ge=1,
            le=65536,
        ),
    ] = 256
    request_timeout_seconds: Annotated[
        float, Meta(description="seconds from 0.1 to 3600: how long a request may take", ge=0.1, le=3600)
    ] = 30.0
    stop_timeout_seconds: Annotated[
        float,
        Meta(description="seconds from 0 to 3600: how long a shutdown waits for open requests", ge=0, le=3600),
    ] = 30.0
    hold_days: Annotated[
        int, Meta(description="whole days from 0 to 3650: how long a drop can be undone", ge=0, le=3650)
    ] = 7
    key_lifetime_hours: Annotated[
        int,
        Meta(description="whole hours from 1 to 8760: how long an idempotency key is kept", ge=1, le=8760),
    ] = 24
    share_url_minutes: Annotated[
        int,
        Meta(
            description="whole minutes from 1 to 10080: how long recipients of a share can use the URL of a file",
            ge=1,
            le=10080,
        ),
    ] = 60
    deletion_delay_minutes: Annotated[
        int,
        Meta(
            description="whole minutes from 0 to 10080: how long the files of expired versions are kept for readers",
            ge=0,
            le=10080,
        ),
    ] = 120
    managed_tables: Annotated[
        Literal["on", "delta-v1", "off"],
        Meta(
            description="on, delta-v1 or off: managed Delta tables for all clients, for /delta/v1 only, or no new ones"
        ),
    ] = "on"
    lance_workers: Annotated[
        int,
        Meta(description="a whole number from 1 to 64: worker processes that handle rows of Lance tables", ge=1, le=64),
    ] = 2
    lance_worker_memory_gb: Annotated[
        int, Meta(description="a whole number from 1 to 4096: memory limit per Lance worker, in GB", ge=1, le=4096)
    ] = 8
    chores_interval_seconds: Annotated[
        float,
        Meta(description="seconds from 0.05 to 3600: base interval of the background chores", ge=0.05, le=3600),
    ] = 2.0
    otlp_endpoint: Annotated[
        str | None,
        Meta(description="an http(s):// URL of an OpenTelemetry collector; requires moorage[otel]"),
    ] = None

    @property
    def s3(self) -> S3Account | None:
        """The object store, if one is configured."""
        if not (self.s3_locations and self.s3_access_key_id and self.s3_secret_access_key):
            return None
        return S3Account(
            endpoint=self.s3_endpoint or f"https://s3.{self.s3_region}.amazonaws.com",
            region=self.s3_region,
            key=S3Key(access_key_id=self.s3_access_key_id, secret_access_key=self.s3_secret_access_key),
            path_style=self.s3_path_style,
            locations=tuple(normalize_location(location) for location in _locations(self.s3_locations)),
            is_strict=self.s3_endpoint is None,  # Amazon S3 is known to be strict; other stores may not be
        )

    @property
    def origins(self) -> tuple[str, ...]:
        """The origins whose pages may use the APIs."""
        return tuple(_locations(self.cors_origins)) if self.cors_origins else ()

    @property
    def proxies(self) -> tuple[str, ...]:
        """The proxies that state the address of a client."""
        return parse_addresses(_locations(self.trusted_proxies), "trusted_proxies") if self.trusted_proxies else ()

    @property
    def issuers(self) -> tuple[str, ...]:
        """The identity providers whose tokens callers and recipients may use."""
        return tuple(_locations(self.oidc_issuers)) if self.oidc_issuers else ()

    @property
    def login_rules(self) -> LoginRules | None:
        """What callers need to log in by an identity provider; None if they cannot."""
        return None if self.oidc_audience is None else self._rules(self.oidc_audience)

    @property
    def browser_rules(self) -> LoginRules:
        """What is read from the ID token of a browser that logs in. The audience is the id of the client."""
        return self._rules("")

    def _rules(self, audience: str) -> LoginRules:
        return LoginRules(
            audience=audience,
            name_claim=self.oidc_name_claim,
            groups_claim=self.oidc_groups_claim,
            creates_users=self.oidc_create_users,
        )

    @property
    def browser_clients(self) -> tuple[BrowserClient, ...]:
        """How the identity providers know this server, for logins with a browser. An empty id: no login there."""
        ids = _locations(self.oidc_client_id) if self.oidc_client_id else []
        secrets = _locations(self.oidc_client_secret) if self.oidc_client_secret else [""] * len(ids)
        return (
            tuple(
                BrowserClient(issuer=issuer, client_id=id, client_secret=secret or None)
                for issuer, id, secret in zip(self.issuers, ids, secrets, strict=True)
                if id
            )
            if ids
            else ()
        )

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.host)

    def url_at(self, port: int) -> str:
        """The URL to give to clients, now that the port is known. It is never taken from a Host header."""
        if self.public_url is not None:
            return self.public_url
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls_cert else 'http'}://{host}:{port}"

    def __repr__(self) -> str:
        """Hides the secrets, because this text appears in logs and bug reports."""
        hidden = {name: "hidden" for name in _SECRET if getattr(self, name) is not None}
        shown = {name: getattr(self, name) for name in self.__struct_fields__} | hidden
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


_HINTS: dict[str, Any] = get_type_hints(Settings, include_extras=True)


class Option(NamedTuple):
    """A setting as shown by `--help` and the documentation."""

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
    """Load the settings from all sources. Raises SettingsError. A flag that is None was not given."""
    environ = environ or {}
    config = config or (Path(environ["MOORAGE_CONFIG"]) if environ.get("MOORAGE_CONFIG") else None)
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for name, value, source in (*_from_file(config), *_from_environment(environ), *_from_flags(flags or {})):
        values[name] = _checked(name, value, source)
        sources[name] = source
    settings = Settings(**values)
    _check_together(settings, sources)
    return settings


_Given = Iterator[tuple[str, Any, str]]
"""The name of a setting, its value, and its source."""


def _from_file(path: Path | None) -> _Given:
    if path is None:
        return
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"the settings file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"the settings file {path} cannot be read: it is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"the settings file {path} is not valid TOML: {error}") from None
    for name, value in document.items():
        _require_known(name, f"{name} in {path}", [option.name for option in options()])
        yield name, value, f"{name} in {path}"


def _from_environment(environ: Mapping[str, str]) -> _Given:
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or variable in NOT_SETTINGS or variable.startswith(_OF_SPARK):
            continue
        if _LEFT_BY_KUBERNETES.match(variable):
            continue
        if variable == "MOORAGE_PORT" and value.startswith("tcp://"):
            continue
        _require_known(variable, variable, [option.variable for option in options()])
        yield variable.removeprefix(PREFIX).lower(), value, variable


def _from_flags(flags: Mapping[str, Any]) -> _Given:
    for name, value in flags.items():
        if value is not None:
            flag = f"--{name.replace('_', '-')}"
            _require_known(flag, flag, [option.flag for option in options()])
            yield name, value, flag


def _require_known(name: str, source: str, known: list[str]) -> None:
    if name in known:
        return
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    hint = f"did you mean {near[0]}?" if near else f"the settings are: {', '.join(known)}"
    raise SettingsError(f"{source} is not a setting; {hint}")


def _checked(name: str, value: Any, source: str) -> Any:
    try:
        return msgspec.convert(value, _HINTS[name], strict=False, dec_hook=_path)
    except msgspec.ValidationError:
        raise _wrong(name, value, source) from None


def _path(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str | Path) and str(value):
        return Path(value)
    raise ValueError(value)


def _wrong(name: str, value: Any, source: str) -> SettingsError:
    given = "is invalid" if name in _SECRET else f"is {value!r}"
    return SettingsError(f"{source} {given}; expected {_description(name)}")


def _description(name: str) -> str:
    meta: Meta = _HINTS[name].__metadata__[0]
    return meta.description or ""


def _check_together(settings: Settings, sources: Mapping[str, str]) -> None:
    database = settings.database
    if database is not None and not is_postgres_url(database):
        raise _wrong("database", database, sources["database"])
    for name in ("public_url", "otlp_endpoint", "s3_endpoint", "google_endpoint", "azure_endpoint"):
        value = getattr(settings, name)
        if value is not None and not (is_http_url(value) and (name == "otlp_endpoint" or _is_plain(value))):
            raise _wrong(name, value, sources[name])
    outside = settings.external_folder
    if outside is not None and outside.resolve().is_relative_to(settings.data.resolve()):
        raise _wrong("external_folder", str(outside), sources["external_folder"])
    if outside is not None and not outside.is_dir():
        raise SettingsError(
            f"{sources['external_folder']} is {str(outside)!r}, but there is no such folder; create or mount it"
        )
    for name, other in (("tls_cert", "tls_key"), ("tls_key", "tls_cert")):
        if getattr(settings, name) is not None and getattr(settings, other) is None:
            raise SettingsError(f"{sources[name]} needs {other}: {_description(other)}")
    if not all(is_http_url(origin) and not urlsplit(origin).path and _is_plain(origin) for origin in settings.origins):
        raise _wrong("cors_origins", settings.cors_origins, sources["cors_origins"])
    try:
        _ = settings.proxies
    except InvalidInput:
        raise _wrong("trusted_proxies", settings.trusted_proxies, sources["trusted_proxies"]) from None
    _check_s3(settings, sources)
    _check_oidc(settings, sources)
    _check_keys(settings, sources)


def _check_keys(settings: Settings, sources: Mapping[str, str]) -> None:
    given = [sources[name] for name in ("secret_key", "secret_key_file", "secret_key_command") if name in sources]
    if len(given) > 1:
        raise SettingsError(f"{' and '.join(given)} are set; only one of them may be")
    if settings.secret_key is not None:
        try:
            parse_keys(settings.secret_key)
        except ValueError:
            raise _wrong("secret_key", settings.secret_key, sources["secret_key"]) from None


def _check_oidc(settings: Settings, sources: Mapping[str, str]) -> None:
    if not all(map(is_issuer_url, settings.issuers)):
        raise _wrong("oidc_issuers", settings.oidc_issuers, sources["oidc_issuers"])
    for name in ("oidc_audience", "oidc_client_id"):
        if getattr(settings, name) is not None and not settings.issuers:
            raise SettingsError(f"{sources[name]} needs oidc_issuers: {_description('oidc_issuers')}")
        if getattr(settings, name) is not None and settings.auth != "on":
            raise SettingsError(f"{sources[name]} has no effect without --auth on")
    if settings.oidc_client_secret is not None and settings.oidc_client_id is None:
        raise SettingsError(f"{sources['oidc_client_secret']} needs oidc_client_id: {_description('oidc_client_id')}")
    for name in ("oidc_client_id", "oidc_client_secret"):
        value = getattr(settings, name)
        if value is not None and len(_locations(value)) != len(settings.issuers):
            raise _wrong(name, value, sources[name])


_S3_LOCATION = re.compile(r"s3://[a-z0-9][a-z0-9.-]+[a-z0-9](/[^/?#\\\x00-\x1f\x7f]+)*/?")


_S3_KEY = ("s3_access_key_id", "s3_secret_access_key")


def _check_s3(settings: Settings, sources: Mapping[str, str]) -> None:
    if settings.s3_locations is None:
        for name in ("s3_endpoint", *_S3_KEY, "managed_location"):
            if getattr(settings, name) is not None:
                raise SettingsError(f"{sources[name]} has no effect without s3_locations ({PREFIX}S3_LOCATIONS)")
        return
    if not all(map(_is_s3_location, _locations(settings.s3_locations))):
        raise _wrong("s3_locations", settings.s3_locations, sources["s3_locations"])
    if settings.s3_endpoint is not None and urlsplit(settings.s3_endpoint).path:
        raise _wrong("s3_endpoint", settings.s3_endpoint, sources["s3_endpoint"])
    if settings.s3_endpoint is not None and not settings.s3_path_style and has_ip_address(settings.s3_endpoint):
        # A bucket name cannot be prepended to an IP address: the S3 library would panic.
        raise SettingsError(
            f"{sources['s3_endpoint']} has an IP address, so s3_path_style must be true ({PREFIX}S3_PATH_STYLE)"
        )
    for name in _S3_KEY:
        if not getattr(settings, name):
            needs = f"needs {name} ({PREFIX}{name.upper()})"
            raise SettingsError(f"{sources['s3_locations']} {needs}: {_description(name)}")
    managed, account = settings.managed_location, settings.s3
    if managed and account and not (_is_s3_location(managed) and account.holds(normalize_location(managed))):
        raise _wrong("managed_location", managed, sources["managed_location"])


def _locations(text: str) -> list[str]:
    return [location.strip() for location in text.split(",")]


def _is_s3_location(text: str) -> bool:
    return _S3_LOCATION.fullmatch(text) is not None and not {".", ".."} & set(text.split("/"))


def _is_plain(url: str) -> bool:
    """Whether a path can be appended to the URL."""
    parts = urlsplit(url)
    return not (parts.query or parts.fragment or url.endswith("/"))


def require_safe_listen(settings: Settings, *, has_authentication: bool) -> None:
    """Refuse to listen beyond loopback without authentication or a public URL. The most serious reason comes first."""
    if settings.is_loopback:
        return
    missing = []
    if not has_authentication:
        missing.append(
            "authentication is off, so anyone who can reach this port can change every table; "
            "use --auth on or --host 127.0.0.1"
        )
    if settings.public_url is None:
        missing.append(
            "public_url is not set; set it to the address at which clients reach this server "
            "(MOORAGE_PUBLIC_URL or --public-url)"
        )
    if missing:
        raise SettingsError(f"refusing to listen on {settings.host}: " + "; also, ".join(missing))
