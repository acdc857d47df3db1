"""Conversion between database rows and values, shared by both stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from moorage.core.entries import Entry, JobState, Outcome, Publish, Receipt, decode_body
from moorage.core.ids import DraftId, JobId, SecurableId, Seq
from moorage.core.jobs import Job
from moorage.core.securables import Doc, Grants, Head, Kind, Securable
from moorage.ledger.port import Report, Staged, Version

SECURABLE_COLUMNS: Final = [
    "id",
    "kind",
    "parent",
    "name",
    "owner",
    "revision",
    "created_at",
    "created_by",
    "updated_at",
    "updated_by",
    "dropped_at",
    "purge_at",
    "purged",
    "expires_at",
    "doc",
    "grants",
]
DOC: Final = SECURABLE_COLUMNS.index("doc")
_GRANTS: Final = SECURABLE_COLUMNS.index("grants")
_NO_GRANTS: Final[Grants] = {}
HEAD_COLUMNS: Final = (
    "ref",
    "version",
    "timestamp_ms",
    "row_id_mark",
    "floor",
)  # then published.version, .claimed
LAST_ENTRY: Final = "(select seq, at_ms, access_seq from entry order by seq desc limit 1)"
ENTRY_COLUMNS: Final = "seq, at_ms, access_seq, draft, caller, api, request, body"
VERSION_COLUMNS: Final = (
    "table_id, ref, version, seq, at_ms, timestamp_ms, operation, file, size, digest, target, source, details"
)

encode = msgspec.json.Encoder().encode
_decode_doc = msgspec.json.Decoder(Doc).decode
_parse_grants = msgspec.json.Decoder(Grants).decode
_decode_outcome = msgspec.json.Decoder(Outcome).decode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode

_KINDS = {kind.value: kind for kind in Kind}


def securable_columns(alias: str) -> str:
    return ", ".join(f"{alias}.{column}" for column in SECURABLE_COLUMNS)


def head_columns(alias: str, published: str) -> str:
    return ", ".join(f"{alias}.{column}" for column in HEAD_COLUMNS) + f", {published}.version, {published}.claimed"


Join = Callable[[str, str, str], str]
"""Builds a join from a table, its alias, and the condition that selects its row."""


def chain_sql(depth: int, root: str, asked: Callable[[int], tuple[str, str]], join: Join) -> tuple[str, str]:
    """The columns of a walk below a root, followed by those of the last object's head, and the joins for them.

    `asked` returns the shelf and the key of a step. There is one join per step, so one snapshot covers the chain.
    """
    columns, joins, parent = [], [], root
    for n in range(depth):
        shelf, key = asked(n)
        columns.append(securable_columns(f"s{n}"))
        named = f"s{n}.parent = {parent} and s{n}.shelf = {shelf} and s{n}.name_key = {key} and s{n}.dropped_at is null"
        joins.append(join("securable", f"s{n}", named))
        parent = f"s{n}.id"
    joins += (
        join("head", "h", f"h.table_id = {parent} and h.ref = 'main'"),
        join("published", "p", f"p.table_id = {parent} and p.ref = 'main'"),
    )
    return ", ".join((*columns, head_columns("h", "p"))), " ".join(joins)


def below_sql(parent: str, limit: str) -> str:
    """The children of a parent, each with whether it has no children itself. Dropped objects count.

    Live and dropped objects are queried separately, because each has an index and there is none for both.
    """
    both = ("dropped_at is null", "dropped_at is not null")
    childless = " and ".join(
        f"not exists (select 1 from securable c where c.parent = s.id and c.{one})" for one in both
    )
    found = f"select {securable_columns('s')}, {childless} from securable s where s.parent = {parent} and s."
    return " union all ".join(found + one for one in both) + f" limit {limit}"


def securable(row: Sequence[Any], head: Head | None = None, doc: Doc | None = None) -> Securable:
    """From SECURABLE_COLUMNS. `doc` is the decoded last column, if the caller has it."""
    return Securable(
        id=row[0],
        kind=_KINDS[row[1]],
        parent=row[2],
        name=row[3],
        owner=row[4],
        revision=row[5],
        created_at_ms=row[6],
        created_by=row[7],
        updated_at_ms=row[8],
        updated_by=row[9],
        dropped_at_ms=row[10],
        purge_at_ms=row[11],
        purged=bool(row[12]),
        expires_at_ms=row[13],
        doc=_decode_doc(row[DOC]) if doc is None else doc,
        head=head,
        grants=_decode_grants(row[_GRANTS]) if row[_GRANTS] is not None else _NO_GRANTS,
    )


@lru_cache(maxsize=16_384)
def _decode_grants(raw: bytes) -> Grants:
    """Grants are equal on many objects, and are never changed in place."""
    return _parse_grants(raw)


def head(row: Sequence[Any]) -> Head | None:
    """From HEAD_COLUMNS and version and claimed of `published`. None where the join found no head."""
    if row[0] is None:
        return None
    return Head(
        ref=row[0],
        version=row[1],
        timestamp_ms=row[2],
        row_id_mark=row[3],
        floor=row[4],
        published=row[5],
        client_published=-1 if row[6] is None else row[6],
    )


def entry(row: Sequence[Any]) -> Entry:
    """From ENTRY_COLUMNS."""
    return Entry(
        seq=Seq(row[0]),
        at_ms=row[1],
        access_seq=row[2],
        draft=DraftId(row[3]),
        caller=row[4],
        api=row[5],
        request=row[6],
        body=decode_body(row[7]),
    )


def version(row: Sequence[Any]) -> Version:
    """From VERSION_COLUMNS."""
    return Version(
        table=SecurableId(row[0]),
        ref=row[1],
        version=row[2],
        seq=Seq(row[3]),
        at_ms=row[4],
        timestamp_ms=row[5],
        operation=row[6],
        file=row[7],
        size=row[8],
        digest=row[9],
        publish=None if row[10] is None else Publish(target=row[10], source=row[11]),
        details=_decode_object(row[12]),
    )


def staged(row: Sequence[Any]) -> Staged:
    """From table_id, ref, version, at_ms, bytes, file, target, source, size, digest."""
    return Staged(
        table=SecurableId(row[0]),
        ref=row[1],
        version=row[2],
        at_ms=row[3],
        bytes=row[4],
        file=row[5],
        publish=None if row[6] is None else Publish(target=row[6], source=row[7]),
        size=row[8],
        digest=row[9],
    )


REPORT_COLUMNS: Final = "table_id, version, at_ms, body"
ON_REPORT_CONFLICT: Final = """on conflict (table_id, kind, version)
do update set at_ms = excluded.at_ms, body = excluded.body where r.kind in ('scan', 'writer', 'lifetime')"""


def report(row: Sequence[Any]) -> Report:
    """From REPORT_COLUMNS."""
    return Report(table=SecurableId(row[0]), version=row[1], at_ms=row[2], body=row[3])


def receipt(seq: int | None, at_ms: int, outcome: bytes | str) -> Receipt:
    return Receipt(seq=None if seq is None else Seq(seq), at_ms=at_ms, outcome=_decode_outcome(outcome))


JOB_COLUMNS: Final = (
    "job.id, job.kind, job.subject, job.dedupe, job.args, job.attempts, job.state, job.created_at, job.run_at, "
    "job.result, job.error, job.ended_at, "
    "lease.worker, lease.until_ms, lease.attempt, lease.not_before_ms, lease.progress, lease.error"
)


def job(row: Sequence[Any], now_ms: int) -> Job:
    """From JOB_COLUMNS of job left join lease. The lease determines whether the job is running.

    While the job is open, its error is the one of its last attempt.
    """
    running = row[6] == "open" and row[13] is not None and row[13] > now_ms
    state = (JobState.RUNNING if running else JobState.QUEUED) if row[6] == "open" else JobState(row[6])
    return Job(
        id=JobId(row[0]),
        kind=row[1],
        subject=row[2],
        dedupe=row[3],
        args=_decode_object(row[4]),
        attempts=row[5],
        state=state,
        created_at_ms=row[7],
        not_before_ms=max(row[8], row[15] or 0),
        result=None if row[9] is None else _decode_object(row[9]),
        error=row[17] if row[6] == "open" else row[10],
        ended_at_ms=row[11],
        worker=row[12] if running else None,
        attempt=row[14] or 0,
        progress=None if row[16] is None else _decode_object(row[16]),
    )
