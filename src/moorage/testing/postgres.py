"""A throw-away PostgreSQL cluster: real, durable (fsync is on), gone when the last test that used it is.

Every process that uses a cluster holds a shared lock on its `users` file. A guard process waits for the
exclusive lock, so it wakes when the last user lets go, even one that was killed; then it stops the server
and removes the folder. Nothing is left to a clean exit of pytest.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Self
from uuid import uuid4

import psutil

SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = '{home}'
port = {port}
max_connections = 200
fsync = on
synchronous_commit = on
"""
PATIENCE_SECONDS = 30.0


class PostgresServer:
    """One cluster in a folder of its own. Use it as a context, or call `release` when done with it."""

    def __init__(self, home: Path) -> None:
        """Join the users of a cluster; FileNotFoundError if it is gone because all the others left."""
        self.home = home
        self.data = home / "data"
        self._guard: int | None = None
        self._users: IO[str] = (home / "users").open()
        fcntl.flock(self._users, fcntl.LOCK_SH)
        if not (home / "users").exists():  # removed while we waited for the lock
            self._users.close()
            raise FileNotFoundError(home)

    @classmethod
    def create(cls) -> Self:
        """A new, running cluster of the caller's own, which may be stopped, killed and started."""
        # Not pytest's tmp_path: only its owner may enter that, and PostgreSQL refuses to run as root.
        home = Path(tempfile.mkdtemp(prefix="moorage-pg-"))
        (home / "users").touch()
        if account := account_to_use():
            os.chown(home, account.pw_uid, account.pw_gid)
        server = cls(home)
        server._guard = spawn_guard(home)
        server._initialise()
        return server

    @classmethod
    def shared(cls, meeting_place: Path) -> Self:
        """The one cluster of all processes that name the same folder; the first to come makes it."""
        pointer = meeting_place / "postgres-home"
        with (meeting_place / "postgres-door").open("w") as door:
            fcntl.flock(door, fcntl.LOCK_EX)
            try:
                return cls(Path(pointer.read_text()))
            except FileNotFoundError:
                server = cls.create()
            server._guard = None  # the others may stay longer than its maker, who need not wait for them
            pointer.write_text(str(server.home))
            return server

    @property
    def port(self) -> int:
        return int((self.home / "port").read_text())

    @property
    def url(self) -> str:
        return self._url_of("postgres")

    def new_database(self, name_hint: str = "test") -> str:
        """The URL of a fresh, empty database."""
        hint = re.sub(r"[^a-z0-9]+", "_", name_hint.lower())[:40]
        name = f"{hint}_{uuid4().hex[:8]}"
        self._run("createdb", *self._address(), name)
        return self._url_of(name)

    def drop_database(self, url: str) -> None:
        """Remove a database, whoever is still connected to it."""
        self._run("dropdb", *self._address(), "--force", url.rpartition("/")[2])

    def start(self) -> None:
        """Start again after `stop` or `kill`, at the same URL."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return self._run("pg_ctl", "start", "-w", "-D", str(self.data), "-l", str(self.home / "log"))
            except ProgramFailed:
                # What `kill` left behind may hold the shared memory for a moment longer.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def stop(self) -> None:
        """Stop as an operator would: sessions are ended, everything is written, the data stays."""
        self._run("pg_ctl", "stop", "-w", "-D", str(self.data), "-m", "fast")

    def kill(self) -> None:
        """SIGKILL the server and all of its sessions: nobody gets to finish or to say goodbye."""
        postmaster = psutil.Process(self.pid)
        # Held still first, so that no session is born, and none finishes a commit after its server's death.
        postmaster.suspend()
        family = [*postmaster.children(recursive=True), postmaster]
        for process in family:
            process.send_signal(signal.SIGKILL)
        while any(is_alive(process) for process in family):
            time.sleep(0.001)
        # Whoever collects the dead on this machine may be slow, and to the next start a dead server that
        # was not yet collected looks alive.
        for lock in (self.data / "postmaster.pid", *self.home.glob(".s.PGSQL.*.lock")):
            lock.unlink()

    def release(self) -> None:
        """Let go. After the last user has, the cluster is stopped and removed."""
        self._users.close()
        if self._guard is not None:
            os.waitpid(self._guard, 0)
            self._guard = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _initialise(self) -> None:
        # Production databases sort by a language; a query that needs byte order must say so itself.
        collation = ("--locale=C", "--locale-provider=icu", "--icu-locale=en-US", "--encoding=UTF8")
        self._run("initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "--no-sync", *collation)
        port = free_port()
        (self.home / "port").write_text(str(port))
        with (self.data / "postgresql.conf").open("a") as settings:
            settings.write(SETTINGS.format(home=self.home, port=port))
        self.start()

    @property
    def pid(self) -> int:
        """The postmaster, whose children are the backends."""
        return int((self.data / "postmaster.pid").read_text().split()[0])

    def _address(self) -> tuple[str, ...]:
        return ("-h", str(self.home), "-p", str(self.port), "-U", "postgres")

    def _url_of(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def _run(self, program: str, *arguments: str) -> None:
        run_program(self.home, program, *arguments)


class ProgramFailed(Exception):
    """A program of PostgreSQL failed; the message holds its words and the server's log."""


def programs() -> Path:
    """The folder of the newest installed server's programs; Debian keeps them off the PATH."""
    installed = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest = max(installed, key=lambda initdb: float(initdb.parts[-3]), default=None)
    found = newest or shutil.which("initdb")
    if found is None:
        raise FileNotFoundError("no PostgreSQL server is installed: run `make setup`")
    return Path(found).parent


def run_program(home: Path, program: str, *arguments: str) -> None:
    """Run one of PostgreSQL's programs under the account that owns the cluster."""
    account = account_to_use()
    outcome = subprocess.run(
        [programs() / program, *arguments],
        cwd=home,
        user=account.pw_uid if account else None,
        group=account.pw_gid if account else None,
        extra_groups=[] if account else None,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if outcome.returncode != 0:
        log = home / "log"
        words = [outcome.stdout, outcome.stderr, log.read_text() if log.exists() else ""]
        raise ProgramFailed(f"{program} failed: " + "\n".join(words))


def account_to_use() -> pwd.struct_passwd | None:
    """PostgreSQL refuses to run as root, so root lends it another account; anyone else uses their own."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def free_port() -> int:
    """A port below those that the system hands out to clients.

    One of theirs could be taken while the server is down; a client that keeps knocking at it may even
    be connected to itself.
    """
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError("no free port between 20000 and 32000")


def spawn_guard(home: Path) -> int:
    """A process in a session of its own, so that what ends the tests does not end it."""
    quiet = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in (0, 1, 2)]
    # -P, or the modules beside this file could hide those of the standard library.
    command = [sys.executable, "-P", __file__, str(home)]
    return os.posix_spawn(sys.executable, command, os.environ, file_actions=quiet, setsid=True)


def guard(home: Path) -> None:
    """Wait until nobody uses the cluster any more, then stop and remove it."""
    with (home / "users").open() as users:
        fcntl.flock(users, fcntl.LOCK_EX)
        with contextlib.suppress(ProgramFailed):  # a test may have stopped or killed it already
            run_program(home, "pg_ctl", "stop", "-w", "-D", str(home / "data"), "-m", "immediate")
        shutil.rmtree(home)


if __name__ == "__main__":
    guard(Path(sys.argv[1]))
