"""What an Iceberg table's metadata, manifests and reports state about its files. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import ceil
from typing import Any, Final

from moorage.core.health import TARGET_FILE_BYTES, Activity, Files, TableFacts, avoidable, small_limit
from moorage.formats.iceberg.documents import Document
from moorage.formats.iceberg.manifests import DATA, EQUALITY_DELETES, ContentFile, ManifestFile

_TARGET_SIZE: Final = "write.target-file-size-bytes"
_MANIFEST_SIZE: Final = "commit.manifest.target-size-bytes"
_MANIFEST_BYTES: Final = 8 * 1024 * 1024
_MAX_AGE: Final = "history.expire.max-snapshot-age-ms"
_DAY_MS: Final = 24 * 60 * 60 * 1000
_KEEP: Final = "history.expire.min-snapshots-to-keep"


def target_bytes(table: Document) -> int:
    """The size that writers aim at. Iceberg's own default is 512 MB; ours is that of every format."""
    return _positive(table["properties"].get(_TARGET_SIZE), TARGET_FILE_BYTES)


def current_snapshot(table: Document) -> Document | None:
    id = table.get("current-snapshot-id")
    return next((each for each in table["snapshots"] if each["snapshot-id"] == id), None)


def facts(
    table: Document,
    version: int,
    listed: Sequence[ManifestFile],
    files: Iterable[ContentFile],
    activity: Activity,
    *,
    now_ms: int,
) -> TableFacts:
    """The facts about a table whose manifests were read."""
    target = target_bytes(table)
    groups: defaultdict[tuple[int, object], list[int]] = defaultdict(list)
    records = deletes = deleted_rows = 0
    for each in files:
        if each.content == DATA:
            groups[each.spec_id, each.partition].append(each.size)
            records += each.records
        else:
            deletes += 1
            deleted_rows += 0 if each.content == EQUALITY_DELETES else each.records
    sizes = [_group(some, small_limit(target)) for some in groups.values()]
    return TableFacts(
        version=version,
        files=sum(each.count for each in sizes),
        bytes=sum(each.bytes for each in sizes),
        rows=records,
        small_files=sum(each.small for each in sizes),
        avoidable_files=avoidable(sizes, target),
        deleted_rows=deleted_rows,
        delete_files=deletes,
        old_versions=len(expirable(table, now_ms)),
        manifests=len(listed),
        avoidable_manifests=avoidable_manifests(table, listed),
        activity=activity,
    )


def summary_facts(table: Document, version: int, activity: Activity, *, now_ms: int) -> TableFacts:
    """The facts about a table whose manifests are too large to read here: totals, from the snapshot's summary."""
    summary = (current_snapshot(table) or {}).get("summary", {})
    files = _positive(summary.get("total-data-files"), 0)
    size = _positive(summary.get("total-files-size"), 0)
    target = target_bytes(table)
    is_small = files > 0 and size // files < small_limit(target)
    return TableFacts(
        version=version,
        files=files,
        bytes=size,
        rows=_positive(summary.get("total-records"), 0),
        small_files=files if is_small else 0,
        avoidable_files=max(files - ceil(size / target), 0) if is_small else 0,
        deleted_rows=_positive(summary.get("total-position-deletes"), 0),
        delete_files=_positive(summary.get("total-delete-files"), 0),
        old_versions=len(expirable(table, now_ms)),
        activity=activity,
    )


def _group(sizes: list[int], limit: int) -> Files:
    small = [size for size in sizes if size < limit]
    return Files(count=len(sizes), bytes=sum(sizes), small=len(small), small_bytes=sum(small))


def avoidable_manifests(table: Document, listed: Sequence[ManifestFile]) -> int:
    """How many manifests fewer there would be if those of one kind and spec were merged to the target size."""
    target = _positive(table["properties"].get(_MANIFEST_SIZE), _MANIFEST_BYTES)
    kinds: defaultdict[tuple[bool, int | None], list[int]] = defaultdict(list)
    for each in listed:
        if not each.is_deletes:
            kinds[each.is_deletes, each.spec_id].append(each.length)
    groups = [
        Files(count=len(some), bytes=sum(some), small=len(some), small_bytes=sum(some))
        for some in ([length for length in lengths if length < small_limit(target)] for lengths in kinds.values())
    ]
    return avoidable(groups, target)


def expirable(table: Document, now_ms: int) -> list[int]:
    """The snapshots that expiry would remove: too old, not among the newest to keep, and not named by a branch or tag.

    The history of every branch keeps as many snapshots as the table asks for.
    """
    properties = table["properties"]
    age_ms = _positive(properties.get(_MAX_AGE), 5 * _DAY_MS)
    keep = max(_positive(properties.get(_KEEP), 1), 1)
    refs = table.get("refs", {}).values()
    parents = {each["snapshot-id"]: each.get("parent-snapshot-id") for each in table["snapshots"]}
    kept: set[int] = {each["snapshot-id"] for each in refs}
    if table.get("current-snapshot-id") is not None:
        kept.add(table["current-snapshot-id"])
    for ref in refs:
        at: int | None = ref["snapshot-id"]
        count = ref.get("min-snapshots-to-keep") or keep
        for _ in range(count if ref.get("type") == "branch" else 0):
            if at is None or at not in parents:
                break
            kept.add(at)
            at = parents[at]
    oldest_ms = now_ms - age_ms
    kept |= _current_at(table, oldest_ms)
    return [
        each["snapshot-id"]
        for each in table["snapshots"]
        if each["timestamp-ms"] < oldest_ms and each["snapshot-id"] not in kept
    ]


def _current_at(table: Document, at_ms: int) -> set[int]:
    """The snapshot that was current at a moment. Readers may have begun with it afterwards, so expiry keeps it."""
    by_id = {each["snapshot-id"]: each for each in table["snapshots"]}
    found = by_id.get(table.get("current-snapshot-id"))
    while found is not None and found["timestamp-ms"] >= at_ms:
        found = by_id.get(found.get("parent-snapshot-id"))
    return set() if found is None else {found["snapshot-id"]}


def activity_of(commits: Iterable[Any], scans: Iterable[Any]) -> Activity:
    """What clients reported about their commits and scans."""
    committed = [each for each in map(_metrics, commits) if each]
    scanned = [each for each in map(_metrics, scans) if each]
    return Activity(
        commits=len(committed),
        files_added=sum(_value(each, "added-data-files") for each in committed),
        bytes_added=sum(_value(each, "added-files-size-bytes") for each in committed),
        scans=len(scanned),
        files_scanned=sum(_value(each, "result-data-files") for each in scanned),
    )


def _metrics(report: Any) -> dict[str, Any]:
    found = report.get("metrics") if isinstance(report, dict) else None
    return found if isinstance(found, dict) else {}


def _value(metrics: dict[str, Any], name: str) -> int:
    counter = metrics.get(name)
    value = counter.get("value") if isinstance(counter, dict) else None
    return value if isinstance(value, int) else 0


def _positive(text: object, otherwise: int) -> int:
    digits = str(text)
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else otherwise
