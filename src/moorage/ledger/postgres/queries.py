"""The statements that read the ledger and write its notes. Each read is one statement, so its result
comes from one snapshot. `now_v1` gets the clock of a test, or null for the database's clock.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from moorage.core.securables import Shelf
from moorage.ledger import rows


def _join_one(table: str, alias: str, where: str) -> str:
    """Join the one row that an index finds.

    Plans are cached. The plan of a plain join, made while the table was small, would read a whole index for each row
    until the table is analysed. A subquery with a limit can only run as one index lookup per row.
    """
    return f"left join lateral (select * from {table} {alias} where {where} limit 1) {alias} on true"


MAX_CHANGES: Final = 500
"""A cache that is further behind is cleared: reading its objects again costs less than applying more entries."""
_MAX_BODY_BYTES: Final = 64 * 1024
# The entry $1 and those after it. The body of $1 is known. A large one is left out, so that the result is limited.
CHANGES_SINCE: Final = f"""
select seq, at_ms, access_seq, draft, caller,
       case when seq > $1 and octet_length(body) <= {_MAX_BODY_BYTES} then body end
from entry where seq >= $1 order by seq limit {MAX_CHANGES}"""
# The same, and the notes on the tables $2, which have no caller.
CHANGES_AND_NOTES_SINCE: Final = f"""
({CHANGES_SINCE}) union all
select version, claimed, 0, table_id, null, null from published where table_id = any ($2::text[]) and ref = 'main'"""
LAST_ENTRY: Final = "select seq, at_ms, access_seq, draft from entry order by seq desc limit 1"

# The objects with these ids and all their ancestors, each once, unordered.
LINEAGES: Final = f"""
with recursive up ({", ".join(rows.SECURABLE_COLUMNS)}) as (
    select {rows.securable_columns("s")} from securable s where s.id = any ($1::text[])
    union
    select {rows.securable_columns("s")} from up join securable s on s.id = up.parent
)
select {rows.securable_columns("up")}, {rows.head_columns("h", "p")}, e.seq, e.at_ms, e.access_seq
from {rows.LAST_ENTRY} e left join up on true
{_join_one("head", "h", "h.table_id = up.id and h.ref = 'main'")}
{_join_one("published", "p", "p.table_id = up.id and p.ref = h.ref")}"""


@cache
def ids_on_sql(shelf: Shelf) -> str:
    """The shelf is part of the statement, because the indexes are for one shelf each."""
    return f"select id from securable where shelf = '{shelf}' and dropped_at is null and id > $1 order by id limit $2"


@cache
def walk_sql(depth: int) -> str:
    """A chain below $1. The arguments are the shelf and key of each step."""
    columns, joins = rows.chain_sql(depth, "$1", lambda n: (f"${2 * n + 2}", f"${2 * n + 3}"), _join_one)
    return f"select e.seq, e.at_ms, e.access_seq, {columns} from {rows.LAST_ENTRY} e {joins}"


@cache
def walks_sql(depth: int) -> str:
    """Chains below $1, one row each, in the order of the arguments: arrays of the shelf and key of each step.

    For a single chain it costs the database 50% more than walk_sql.
    """
    asked = ", ".join(f"${n}::text[]" for n in range(2, 2 * depth + 2))
    names = ", ".join(f"shelf{n}, key{n}" for n in range(depth))
    columns, joins = rows.chain_sql(depth, "$1", lambda n: (f"w.shelf{n}", f"w.key{n}"), _join_one)
    return (
        f"select e.seq, e.at_ms, e.access_seq, {columns} "
        f"from {rows.LAST_ENTRY} e cross join unnest({asked}) with ordinality w ({names}, nth) {joins} order by w.nth"
    )


def _listing_sql(where: str, order: str) -> str:
    """A listing with the ledger position in each row. An empty listing is one row with only the position."""
    return f"""
        select {rows.securable_columns("s")}, {rows.head_columns("h", "p")}, e.seq, e.at_ms, e.access_seq
        from {rows.LAST_ENTRY} e
        left join lateral (select * from securable s where {where} order by {order} limit $3) s on true
        {_join_one("head", "h", "h.table_id = s.id and h.ref = 'main'")}
        {_join_one("published", "p", "p.table_id = s.id and p.ref = h.ref")}
        order by {order}"""


CHILDREN: Final = _listing_sql(
    "s.parent = $1 and s.shelf = $2 and s.name_key > $4 and s.dropped_at is null "
    "and ($5::text[] is null or s.kind = any ($5))",
    "s.name_key",
)
DROPPED: Final = _listing_sql(
    "s.parent = $1 and s.shelf = $2 and s.dropped_at <= $4 and (s.dropped_at < $4 or s.id > $5) and not s.purged",
    "s.dropped_at desc, s.id",
)
LOCATION_HOLDER: Final = """
select coalesce(
    (select securable from place where path = any ($1::text[]) limit 1),
    (select securable from place where path >= $2 and path < $3 limit 1))"""
ALL_CHILDREN: Final = rows.below_sql("$1", "$2")
HEAD: Final = f"""
select {rows.head_columns("h", "p")} from head h left join published p on p.table_id = h.table_id and p.ref = h.ref
where h.table_id = $1 and h.ref = $2"""
_VERSIONS = f"""
select {rows.VERSION_COLUMNS} from version
where table_id = $1 and ref = $2 and version >= $3 and version <= $4 order by version"""
VERSIONS: Final = f"{_VERSIONS} limit $5"
VERSIONS_DESCENDING: Final = f"{_VERSIONS} desc limit $5"
COUNT_VERSIONS: Final = """
select count(*) from version where table_id = $1 and ref = $2 and version between $3 and $4"""
DOCUMENT: Final = "select bytes from document where table_id = $1 and ref = $2 and version = $3"
ENTRIES: Final = f"select {rows.ENTRY_COLUMNS} from entry where seq > $1 order by seq limit $2"
RECEIPT: Final = """
select print, seq, at_ms, outcome from receipt where caller = $1 and key = $2 and until_ms >= now_v1($3)"""
DELETE_EXPIRED_RECEIPTS: Final = """
delete from receipt where until_ms < now_v1($1) and (caller, key) in
    (select caller, key from receipt where until_ms < now_v1($1) limit $2) returning 1"""
STAGED: Final = """
select s.table_id, s.ref, s.version, s.at_ms, s.bytes, v.file, v.target, v.source, v.size, v.digest
from staged s join version v using (table_id, ref, version)
where s.at_ms <= now_v1($1) - $2 and (s.table_id, s.ref, s.version) > ($4, $5, $6)
order by s.table_id, s.ref, s.version limit $3"""
# A note on an erased table would never be deleted. With the lock, it is written before the erasure or not at all.
_HELD = "select id from securable where id = $1 for key share"
PUBLISHED: Final = f"""
with held as ({_HELD}), noted as (
    insert into published as p
    select s.id, $2, $3, case when $4 then $3::bigint else -1 end from held s
    on conflict (table_id, ref) do update
    set version = greatest(p.version, excluded.version), claimed = greatest(p.claimed, excluded.claimed)
)
delete from staged where table_id = $1 and ref = $2 and version <= $3"""
DURABLE: Final = """
delete from staged s using unnest($1::text[], $2::text[], $3::bigint[]) as d (table_id, ref, version)
where s.table_id = d.table_id and s.ref = d.ref and s.version <= d.version"""
STORE_REPORT: Final = f"""
with held as ({_HELD})
insert into report as r select s.id, $5, $2, now_v1($4), $3 from held s
{rows.ON_REPORT_CONFLICT}"""
REPORTS: Final = f"""
select {rows.REPORT_COLUMNS} from report
where table_id = $1 and kind = $2 and version > $3 order by version limit $4"""
DELETE_REPORTS: Final = """
delete from report where (table_id, kind, version) in (
    select table_id, kind, version from report where table_id = $1 and kind = $2 and version < $3 limit $4)
returning version"""
# Not `dropped_at is null`: the planner would choose the index of names for it and read all of it.
DUE_FOR_PURGE: Final = f"""
with c as materialized (select now_v1($1) as now_ms)
(select {rows.securable_columns("s")}, s.purge_at as due_ms from securable s
 where s.purge_at <= (select now_ms from c) and (s.purge_at, s.id) > ($2, $3) order by s.purge_at, s.id limit $4)
union all
(select {rows.securable_columns("s")}, s.expires_at from securable s
 where s.expires_at <= (select now_ms from c) and (s.expires_at, s.id) > ($2, $3) and coalesce(s.dropped_at, 0) = 0
 order by s.expires_at, s.id limit $4)
order by due_ms, id limit $4"""

JOB: Final = f"""
select {rows.JOB_COLUMNS}, c.now_ms
from now_v1($1) c (now_ms) cross join job {_join_one("lease", "lease", "lease.job = job.id")}"""


def _jobs_sql(after: str, order: str) -> str:
    return f"""{JOB}
where {after} and ($3::text is null or job.kind = $3) and ($4::text is null or job.state = $4)
  and ($5::boolean is null or (coalesce(lease.until_ms, 0) > c.now_ms) = $5) and ($7::text is null or job.subject = $7)
order by {order} limit $6"""


JOBS: Final = _jobs_sql("job.id > $2", "job.id")
JOBS_DESCENDING: Final = _jobs_sql("($2 = '' or job.id < $2)", "job.id desc")
DUE_JOBS: Final = f"""{JOB}
where job.state = 'open' and job.run_at <= c.now_ms and coalesce(lease.not_before_ms, 0) <= c.now_ms
order by job.run_at, job.id limit $2"""
TAKE_JOB: Final = "select * from take_job_v1($1, $2, $3, $4, $5)"
RENEW_LEASE: Final = """
with c as materialized (select now_ms from now_v1($1) c (now_ms)),
kept as (select until_ms from lease, c where job = $2 and fence = $3 and $5::bytea is null and until_ms >= now_ms + $6),
renewed as (
    update lease set until_ms = greatest(until_ms, c.now_ms + $4), progress = coalesce($5, progress)
    from c where job = $2 and fence = $3 and not exists (select from kept) returning until_ms)
select until_ms from kept union all select until_ms from renewed"""
REQUEUE_JOB: Final = """
update lease set until_ms = 0, not_before_ms = c.now_ms + $4, fence = '', error = $5, attempt = attempt - $6
from now_v1($1) c (now_ms) where job = $2 and fence = $3 returning true"""
