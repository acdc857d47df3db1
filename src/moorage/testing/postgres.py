"""A temporary PostgreSQL cluster with fsync on, which is removed after the last test that uses it.

Every process that uses a cluster holds a shared lock on its `users` file. A guard process waits for the
exclusive lock. It gets the lock when the last user has released its own, even one that was killed. Then it
stops the server and removes the folder. The cleanup does not depend on a clean exit of pytest.
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
    """One cluster in its own folder. Use it as a context manager, or call `release` at the end."""

    def __init__(self, home: Path) -> None:
        """Join the users of a cluster. Raises FileNotFoundError if it was removed because all others released it."""
        self.home = home
        self.data = home / "data"
        self._guard: int | None = None
        self._users: IO[str] = (home / "users").open()
        fcntl.flock(self._users, fcntl.LOCK_SH)
        if not (home / "users").exists():  # removed while this process waited for the lock
            self._users.close()
            raise FileNotFoundError(home)

    @classmethod
    def create(cls) -> Self:
        """Create and start a cluster for the caller alone, which may stop, kill and start it."""
        # pytest's tmp_path is accessible to its owner only, and PostgreSQL runs as another user if that is root.
        home = Path(tempfile.mkdtemp(prefix="moorage-pg-"))
        (home / "users").touch()
        if account := account_to_use():
            os.chown(home, account.pw_uid, account.pw_gid)
        server = cls(home)
        server._guard = spawn_guard(home)
        server._initialise()
        return server

    @classmethod
    def shared(cls, folder: Path) -> Self:
        """Return the cluster that all processes with the same folder share. The first caller creates it."""
        pointer = folder / "postgres-home"
        with (folder / "postgres-door").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                return cls(Path(pointer.read_text()))
            except FileNotFoundError:
                server = cls.create()
            server._guard = None  # its creator need not wait for the guard: other users may need the cluster longer
            pointer.write_text(str(server.home))
            return server

    @property
    def port(self) -> int:
        return int((self.home / "port").read_text())

    @property
    def url(self) -> str:
        return self._url_of("postgres")

    def new_database(self, name_hint: str = "test") -> str:
        """Create an empty database and return its URL."""
        hint = re.sub(r"[^a-z0-9]+", "_", name_hint.lower())[:40]
        name = f"{hint}_{uuid4().hex[:8]}"
        self._run("createdb", *self._address(), name)
        return self._url_of(name)

    def drop_database(self, url: str) -> None:
        """Drop a database, even if clients are still connected to it."""
        self._run("dropdb", *self._address(), "--force", url.rpartition("/")[2])

    def start(self) -> None:
        """Start again after `stop` or `kill`, at the same URL."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return self._run("pg_ctl", "start", "-w", "-D", str(self.data), "-l", str(self.home / "log"))
            except ProgramFailed:
                # Processes that `kill` ended may hold the shared memory for a moment longer.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def stop(self) -> None:
        """Stop as an operator would: end the sessions, write everything to disk, keep the data."""
        self._run("pg_ctl", "stop", "-w", "-D", str(self.data), "-m", "fast")

    def kill(self) -> None:
        """Send SIGKILL to the server and all of its sessions, so that none can finish its work."""
        postmaster = psutil.Process(self.pid)
        # Suspend it first, so that no session starts, and none finishes a commit after the death of its server.
        postmaster.suspend()
        processes = [*postmaster.children(recursive=True), postmaster]
        for process in processes:
            process.send_signal(signal.SIGKILL)
        while any(is_alive(process) for process in processes):
            time.sleep(0.001)
        # The parent process may be slow to reap the processes, and the next start takes a zombie for a running server.
        for lock in (self.data / "postmaster.pid", *self.home.glob(".s.PGSQL.*.lock")):
            lock.unlink()

    def release(self) -> None:
        """Stop using the cluster. After the last user has released it, the guard stops and removes it."""
        self._users.close()
        if self._guard is not None:
            os.waitpid(self._guard, 0)
            self._guard = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _initialise(self) -> None:
        # Production databases often use a language's collation, so a query that needs byte order must specify it.
        collation = ("--locale=C", "--locale-provider=icu", "--icu-locale=en-US", "--encoding=UTF8")
        self._run("initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "--no-sync", *collation)
        port = free_port()
        (self.home / "port").write_text(str(port))
        with (self.data / "postgresql.conf").open("a") as settings:
            settings.write(SETTINGS.format(home=self.home, port=port))
        self.start()

    @property
    def pid(self) -> int:
        """The process id of the postmaster. The backends are its children."""
        return int((self.data / "postmaster.pid").read_text().split()[0])

    def _address(self) -> tuple[str, ...]:
        return ("-h", str(self.home), "-p", str(self.port), "-U", "postgres")

    def _url_of(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def _run(self, program: str, *arguments: str) -> None:
        run_program(self.home, program, *arguments)


class ProgramFailed(Exception):
    """A PostgreSQL program failed. The message contains its output and the server's log."""


def programs() -> Path:
    """Return the folder with the programs of the newest installed server. Debian does not put them on the PATH."""
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
        output = [outcome.stdout, outcome.stderr, log.read_text() if log.exists() else ""]
        raise ProgramFailed(f"{program} failed: " + "\n".join(output))


def account_to_use() -> pwd.struct_passwd | None:
    """Return the account for PostgreSQL if the tests run as root, because it refuses root; else None."""
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
    """Return a free port below the range of ephemeral ports.

    While the server is down, a client could get an ephemeral port as its own, and even connect to itself.
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
    """Start the guard in its own session, so that a signal which ends the tests does not end it."""
    to_devnull = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in (0, 1, 2)]
    # -P: the modules in this folder must not hide those of the standard library.
    command = [sys.executable, "-P", __file__, str(home)]
    return os.posix_spawn(sys.executable, command, os.environ, file_actions=to_devnull, setsid=True)


def guard(home: Path) -> None:
    """Wait until no process uses the cluster any more, then stop and remove it."""
    with (home / "users").open() as users:
        fcntl.flock(users, fcntl.LOCK_EX)
        with contextlib.suppress(ProgramFailed):  # a test may have stopped or killed it already
            run_program(home, "pg_ctl", "stop", "-w", "-D", str(home / "data"), "-m", "immediate")
        shutil.rmtree(home)


if __name__ == "__main__":
    guard(Path(sys.argv[1]))
