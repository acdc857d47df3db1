"""The raw speed of the databases on this machine, without a server."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import time
from pathlib import Path

import msgspec

_BODY = b"x" * 1024
_TABLES = 64

_SETUP = """
pragma journal_mode = wal;
pragma synchronous = full;
pragma wal_autocheckpoint = 0;
create table head (id integer primary key, version integer not null);
create table entry (seq integer primary key, head integer not null, version integer not null, body blob not null);
"""

_PGBENCH = """\\set id random(1, 64)
begin;
update head set version = version + 1 where id = :id;
insert into entry (head, body) values (:id, repeat('x', 1024));
commit;
"""


class Swaps(msgspec.Struct, frozen=True):
    per_second: float
    cpu_us: float


def sqlite_swaps(folder: Path, batch: int, seconds: float = 2.0) -> Swaps:
    """Measures compare-and-swap with an inserted row of 1 KB, `batch` of them per fsync."""
    db = sqlite3.connect(folder / f"raw-{batch}.db", isolation_level=None)
    db.executescript(_SETUP)
    db.executemany("insert into head values (?, 0)", [(n,) for n in range(_TABLES)])
    done, versions = 0, [0] * _TABLES
    began, end = time.process_time(), time.monotonic() + seconds
    while time.monotonic() < end:
        db.execute("begin immediate")
        for _ in range(batch):
            id = done % _TABLES
            db.execute("update head set version = version + 1 where id = ? and version = ?", (id, versions[id]))
            db.execute("insert into entry (head, version, body) values (?, ?, ?)", (id, versions[id], _BODY))
            versions[id] += 1
            done += 1
        db.execute("commit")
    cpu = time.process_time() - began
    db.close()
    return Swaps(done / seconds, cpu / done * 1e6)


def pgbench_swaps_per_second(bin_folder: Path, url: str, folder: Path, clients: int, seconds: int = 3) -> float:
    """Measures the same on PostgreSQL with pgbench, one transaction per swap."""
    subprocess.run(
        [
            str(bin_folder / "psql"),
            "-q",
            url,
            "-c",
            "drop table if exists head, entry; create table head (id int primary key, version bigint not null) "
            "with (fillfactor = 50); create table entry (seq bigserial primary key, head int, body text); "
            "insert into head select n, 0 from generate_series(1, 64) n",
        ],
        check=True,
    )
    script = folder / "swap.sql"
    script.write_text(_PGBENCH, encoding="ascii")
    command = [str(bin_folder / "pgbench"), "-n", "-M", "prepared", "-c", str(clients), "-j", "1", "-T", str(seconds)]
    shown = subprocess.run([*command, "-f", str(script), url], check=True, capture_output=True, text=True).stdout
    return float(re.search(r"tps = ([\d.]+)", shown)[1])  # type: ignore[index]
