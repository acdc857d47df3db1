"""SQL statements that are long or used more than once."""

from __future__ import annotations

from functools import cache

from moorage.core.securables import Shelf
from moorage.ledger import rows

WIDTH = len(rows.SECURABLE_COLUMNS)
LINEAGE = f"""
with recursive up (depth, {", ".join(rows.SECURABLE_COLUMNS)}) as (
    select 0, {rows.securable_columns("s")} from securable s where s.id = ?
    union all
    select up.depth + 1, {rows.securable_columns("s")} from up join securable s on s.id = up.parent
)
select {rows.securable_columns("up")}, {rows.head_columns("h", "p")}, e.seq, e.at_ms, e.access_seq
from up join {rows.LAST_ENTRY} e
left join head h on h.table_id = up.id and h.ref = 'main' and up.depth = 0
left join published p on p.table_id = up.id and p.ref = h.ref
order by up.depth desc"""
# CROSS JOIN keeps the order of names. Otherwise the planner starts with the last entry and sorts the whole shelf.
LISTED = f"""
select {rows.securable_columns("s")}, {rows.head_columns("h", "p")}, e.seq, e.at_ms, e.access_seq
from securable s cross join {rows.LAST_ENTRY} e
left join head h on h.table_id = s.id and h.ref = 'main'
left join published p on p.table_id = s.id and p.ref = h.ref"""
STAGED = """
select s.table_id, s.ref, s.version, s.at_ms, s.bytes, v.file, v.target, v.source, v.size, v.digest
from staged s join version v using (table_id, ref, version)
where s.at_ms <= ? and (s.table_id, s.ref, s.version) > (?, ?, ?)
order by s.table_id, s.ref, s.version limit ?"""
DUE = f"""
select {rows.securable_columns("s")}, purge_at as due_ms from securable s
where purge_at <= ?1 and (purge_at, id) > (?2, ?3)
union all
select {rows.securable_columns("s")}, expires_at from securable s
where expires_at <= ?1 and (expires_at, id) > (?2, ?3) and dropped_at is null
order by due_ms, id limit ?4"""
JOB = f"select {rows.JOB_COLUMNS} from job left join lease on lease.job = job.id"
# The index is named: without it, SQLite reads all jobs that ever ended.
DUE_JOBS = (
    f"select {rows.JOB_COLUMNS} from job indexed by job_open left join lease on lease.job = job.id "
    "where job.state = 'open' and job.run_at <= ? and coalesce(lease.not_before_ms, 0) <= ? "
    "order by job.run_at, job.id limit ?"
)


@cache
def ids_on_sql(shelf: Shelf) -> str:
    """The shelf is part of the statement, because the indexes are for one shelf each."""
    return f"select id from securable where shelf = '{shelf}' and dropped_at is null and id > ? order by id limit ?"


@cache
def walk_sql(depth: int) -> str:
    columns, joins = rows.chain_sql(
        depth, "?", lambda _: ("?", "?"), lambda table, alias, where: f"left join {table} {alias} on {where}"
    )
    return f"select e.seq, e.at_ms, e.access_seq, {columns} from {rows.LAST_ENTRY} e {joins}"
