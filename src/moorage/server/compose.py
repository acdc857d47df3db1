"""The composition root: the only module that imports every part of the server."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path

from moorage.access.browser_logins import BrowserLogins
from moorage.access.granted import GrantedAccess
from moorage.access.logins import Logins
from moorage.access.oidc import Issuers
from moorage.access.open import OpenAccess
from moorage.access.port import Access
from moorage.api.console import console
from moorage.api.control import control, sessions
from moorage.api.delta import delta
from moorage.api.iceberg import iceberg, oauth
from moorage.api.lance import lance
from moorage.api.sharing import sharing
from moorage.api.unity import unity
from moorage.api.web import web
from moorage.chores.schedule import run_chores
from moorage.core.errors import MoorageError, Unavailable
from moorage.core.locations import Roots, normalize_location
from moorage.datasets.worker_pool import WorkerPool
from moorage.http import Api, App, Limits
from moorage.http.cors import Cors
from moorage.http.rates import RateLimit
from moorage.ledger.port import Ledger
from moorage.server.auditing import auditing
from moorage.server.health import server
from moorage.server.secret_keys import read_secret_keys
from moorage.server.serve import listen, open_tls, run
from moorage.server.settings import Settings, require_safe_listen
from moorage.server.stores import CloudEndpoints, OpenStore, ServerStores
from moorage.server.telemetry import Metrics, Tracing, observing, start_logging
from moorage.snapshots.snapshots import Snapshots
from moorage.storage.local import LocalStorage
from moorage.storage.port import Storage
from moorage.storage.secrets import SecretKeys
from moorage.storage.stores import Stores
from moorage.usecases.alarms import Alarms
from moorage.usecases.identity.administrator import ensure_administrator, has_administrator
from moorage.usecases.ports import Ports
from moorage.usecases.registry import FORMATS
from moorage.usecases.upkeep.autopilot import totals
from moorage.usecases.upkeep.lifetimes import record_lifetime
from moorage.usecases.upkeep.release import release_location

log = logging.getLogger(__name__)

APIS: tuple[Api, ...] = (console, unity, control, sessions, delta, iceberg, oauth, lance, sharing, web, server)
MANAGED = "managed"
"""The name of the folder for managed tables inside the data folder."""

_PROBE_SECONDS = 1.0
_MB = 1024 * 1024
_DAY_MS = 24 * 60 * 60 * 1000
_HOUR_MS = 60 * 60 * 1000
_MINUTE_MS = 60 * 1000


class ServerPorts(Ports, frozen=True, kw_only=True):
    """The ports of the use cases, and what only the server's own routes need."""

    metrics: Metrics

    async def ready(self) -> str | None:
        try:
            async with asyncio.timeout(_PROBE_SECONDS):  # during a database restart, requests may wait longer
                await self.ledger.position()
        except MoorageError as error:
            return error.message
        except TimeoutError:
            return f"the database did not respond within {_PROBE_SECONDS:g} s"
        return None


async def open_ledger(settings: Settings) -> Ledger:
    """Open the ledger that the settings name. It is created or upgraded if necessary."""
    if settings.database is None:
        from moorage.ledger.sqlite import SqliteLedger

        return await SqliteLedger.open(settings.data)
    from moorage.ledger.postgres import PostgresLedger

    return await PostgresLedger.open(settings.database)


def open_browser_logins(settings: Settings) -> BrowserLogins:
    """The identity providers at which people log in with a browser."""
    return BrowserLogins(Issuers(*settings.issuers), settings.browser_clients, settings.browser_rules)


async def open_access(settings: Settings, ledger: Ledger, browser_logins: BrowserLogins) -> Access:
    """Authentication, if the settings ask for it or it was on for this ledger before."""
    is_guarded = await has_administrator(ledger)
    if settings.auth == "on" or (settings.auth == "auto" and is_guarded):
        rules = settings.login_rules
        logins = None if rules is None else Logins(Issuers(*settings.issuers), rules)
        return GrantedAccess(ledger, await ledger.page_secret(), logins=logins, browser_logins=browser_logins)
    return OpenAccess(settings.public_url, settings.origins, has_administrator=is_guarded)


def open_storage(settings: Settings, stores: ServerStores) -> Storage:
    """The local disk and the object stores."""
    return Stores(local=_open_disk(settings), find=stores.storage_of)


def open_own_storage(settings: Settings) -> Storage:
    """The local disk and the object store of the settings, for a program without a ledger."""
    store = None if settings.s3 is None else OpenStore(settings.s3).storage

    async def find(_: str) -> Storage | None:
        return store

    return Stores(local=_open_disk(settings), find=find)


def _open_disk(settings: Settings) -> Storage:
    return LocalStorage(settings.data / MANAGED, *([settings.external_folder] if settings.external_folder else []))


def make_managed_folder(data: Path) -> tuple[str, str]:
    """Create the folder for managed tables. Returns its location with symbolic links resolved, and as it was given.

    If the folder has been moved and replaced by a link, tables created before have the location as it was given.
    """
    managed = data / MANAGED
    try:
        managed.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(
            f"cannot write to the data folder {data}: {error.strerror}; make it writable or choose another with --data"
        ) from error
    return normalize_location(str(managed.resolve())), normalize_location(os.path.abspath(managed))


async def compose(settings: Settings, ledger: Ledger, url: str | None = None) -> ServerPorts:
    """The ports of a server. `url` is its address, if the settings leave the port to the system."""
    managed, as_given = make_managed_folder(settings.data)
    secrets = SecretKeys(*read_secret_keys(settings))
    endpoints = CloudEndpoints(settings.google_endpoint, settings.azure_endpoint)
    stores = ServerStores(ledger, secrets, settings.s3, endpoints=endpoints)
    await stores.reach()
    storage = open_storage(settings, stores)
    browser_logins = open_browser_logins(settings)
    metrics, alarms = Metrics(), Alarms()
    metrics.counter("moorage_alarms", "Versions that cannot be published as they were ratified.", lambda: alarms.count)
    ports = ServerPorts(
        ledger=ledger,
        storage=storage,
        snapshots=Snapshots(storage),
        access=await open_access(settings, ledger, browser_logins),
        browser_logins=browser_logins,
        roots=Roots(
            normalize_location(settings.managed_location) if settings.managed_location else managed, (managed, as_given)
        ),
        formats=FORMATS,
        release_location=release_location,
        stores=stores,
        secrets=secrets,
        worker_pool=WorkerPool(
            options_of=stores.options_of,
            workers=settings.lance_workers,
            memory_gb=settings.lance_worker_memory_gb,
        ),
        page_secret=await ledger.page_secret(),
        hold_ms=settings.hold_days * _DAY_MS,
        key_lifetime_ms=settings.key_lifetime_hours * _HOUR_MS,
        managed_tables=settings.managed_tables,
        issuers=Issuers(*settings.issuers),
        public_url=(url or settings.url_at(settings.port)).rstrip("/"),
        min_deletion_delay_ms=settings.deletion_delay_minutes * _MINUTE_MS,
        audit_ms=settings.audit_days * _DAY_MS,
        share_url_lifetime_ms=settings.share_url_minutes * _MINUTE_MS,
        operations=frozenset(route.operation for api in APIS for route in api.routes),
        metrics=metrics,
        alarms=alarms,
    )
    _export_health(ports)
    return ports


def _export_health(ports: ServerPorts) -> None:
    """Count tables by format and problem, never by table: the number of labels must have a bound."""
    add = ports.metrics.labelled_gauge
    add("moorage_tables_checked", "Tables whose health is known.", ["format"], lambda: totals(ports).checked)
    add("moorage_tables_unhealthy", "Tables with a score below 50.", ["format"], lambda: totals(ports).unhealthy)
    add(
        "moorage_table_findings",
        "Tables that have a problem.",
        ["format", "problem"],
        lambda: totals(ports).findings,
    )


def make_app(settings: Settings, ports: ServerPorts, tracing: Tracing | None = None) -> App:
    app = App(
        APIS,
        ports,
        limits=Limits(
            body_bytes=settings.body_limit_mb * _MB,
            memory_bytes=settings.body_memory_mb * _MB,
            read_seconds=settings.request_timeout_seconds,
            handle_seconds=settings.request_timeout_seconds,
        ),
        observe=observing(ports.metrics, settings, auditing(ports, reads=settings.audit == "all")),
        trace=tracing.span if tracing else None,
        rates=RateLimit(settings.rate_limit) if settings.rate_limit else None,
        cors=Cors(settings.origins) if settings.origins else None,
        proxies=settings.proxies,
    )
    ports.metrics.gauge("moorage_requests_in_flight", "Requests in progress.", lambda: len(app.in_flight))
    ports.metrics.gauge("moorage_bodies_waiting", "Large requests waiting for memory.", lambda: app.room.waiting)
    return app


async def serve(
    settings: Settings,
    *,
    announce: Callable[[str], None] = lambda url: None,
    show_token: Callable[[str], None] = lambda token: None,
    before_stop: Callable[[], None] = lambda: None,
) -> None:
    """Run the catalog until SIGTERM or SIGINT.

    `announce` is called with the server's URL when it is ready. `show_token` is called once for a ledger, with the
    token of its first administrator. `before_stop` runs in a thread before the shutdown begins, while the server still
    answers requests.
    """
    start_logging(settings)
    require_safe_listen(settings, has_authentication=settings.auth == "on")
    tls = open_tls(settings)
    listener = listen(settings)
    url = settings.url_at(listener.getsockname()[1])
    ledger = await open_ledger(settings)
    ports = await compose(settings, ledger, url)
    token = await ensure_administrator(ledger) if ports.access.authenticates else None
    tracing = Tracing(settings.otlp_endpoint) if settings.otlp_endpoint else None
    app = make_app(settings, ports, tracing)
    await record_lifetime(ports)  # before the first URL is handed out
    stopping = asyncio.Event()
    chores = asyncio.create_task(run_chores(ports, stopping, interval_s=settings.chores_interval_seconds))

    async def on_ready() -> None:
        if token is not None:
            show_token(token)
        announce(url)

    async def on_stop_requested() -> None:
        await asyncio.to_thread(before_stop)

    async def on_stop() -> None:
        stopping.set()
        await chores
        ports.worker_pool.close()
        ports.processes.close()
        await ledger.close()
        if tracing:
            tracing.stop()

    await run(
        app,
        settings,
        listener=listener,
        tls=tls,
        on_ready=on_ready,
        on_stop_requested=on_stop_requested,
        on_stop=on_stop,
    )
