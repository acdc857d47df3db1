"""The metadata that a route declares, and the checks that validate it at import."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import inspect as shapes

from moorage.http.answers import Header

SPEC_RELEASE = "2.1.0-moorage.1"
"""`info.version` of every file under openapi/. It grows with each addition, while the path version stays."""

Stage = Literal["private_preview", "public_preview", "ga"]

_RELEASE = re.compile(r"^\d+\.\d+\.\d+-moorage\.\d+$")


@dataclass(frozen=True, kw_only=True)
class Example:
    """One request and its response, as plain JSON values."""

    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    answer: Any = None


@dataclass(frozen=True, kw_only=True)
class Deprecation:
    """A deprecated operation: since when, when it will be removed, its replacement, and how to migrate."""

    since: date
    sunset: date
    replaced_by: str
    note: str

    def headers(self) -> tuple[Header, ...]:
        """The headers of RFC 9745 (Deprecation) and RFC 8594 (Sunset)."""
        since, sunset = (datetime(day.year, day.month, day.day, tzinfo=UTC) for day in (self.since, self.sunset))
        return (
            (b"deprecation", f"@{int(since.timestamp())}".encode()),
            (b"sunset", format_datetime(sunset, usegmt=True).encode()),
            (b"link", f'<{self.replaced_by}>; rel="successor-version"'.encode()),
        )


def release_number(release: str) -> tuple[int, ...]:
    """A release as numbers, for comparison."""
    return tuple(int(number) for number in re.findall(r"\d+", release))


_shapes: dict[Any, shapes.Type] = {}


def shape_of(kind: Any) -> shapes.Type:
    """msgspec's description of a type. Cached: routes share types, and inspecting them dominates the startup time."""
    if kind not in _shapes:
        _shapes[kind] = shapes.type_info(kind)
    return _shapes[kind]


def check_labels(operation: str, stage: str, since: str) -> None:
    if stage not in get_args(Stage):
        raise TypeError(f"{operation}: stage must be one of {', '.join(get_args(Stage))}, not {stage!r}")
    if not _RELEASE.match(since) or release_number(since) > release_number(SPEC_RELEASE):
        raise TypeError(f"{operation}: since must be a spec release up to {SPEC_RELEASE}, not {since!r}")


def check_handler(operation: str, handler: Callable[..., Any], call: Any, body: Any, query: Any) -> None:
    """Require that the handler's annotation agrees with the route, because mypy checks only the annotation."""
    # Only the first argument: the type of the ports may be defined later in the module, or only for type checking.
    first = dict(list(handler.__annotations__.items())[:1])
    hints = get_type_hints(SimpleNamespace(__annotations__=first), getattr(handler, "__globals__", {}))
    annotation = next(iter(hints.values()), None)
    if get_origin(annotation) is not call or get_args(annotation) != (body, query):
        raise TypeError(
            f"{operation}: the handler's first argument must be Call[{body.__name__}, {query.__name__}], "
            f"not {annotation}"
        )


def check_example(operation: str, part: str, value: Any, kind: Any, *, strict: bool = True) -> None:
    """Reject an example that the server would refuse, or that has a field which no longer exists."""
    try:
        msgspec.convert(value, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise TypeError(f"{operation}: the example's {part} is invalid: {error}") from None
    for name in _unknown_fields(value, shape_of(kind)):
        raise TypeError(f"{operation}: the example's {part} has a field {name!r} that does not exist")


def _unknown_fields(value: Any, shape: shapes.Type) -> Iterator[str]:
    if isinstance(shape, shapes.StructType) and isinstance(value, dict):
        known = {each.encode_name for each in shape.fields}
        yield from (name for name in value if name not in known and name != shape.tag_field)
    for part, part_shape in _parts(value, shape):
        yield from _unknown_fields(part, part_shape)


def _parts(value: Any, shape: shapes.Type) -> list[tuple[Any, shapes.Type]]:
    match shape:
        case shapes.StructType(fields=fields) if isinstance(value, dict):
            return [(value[each.encode_name], each.type) for each in fields if each.encode_name in value]
        case shapes.ListType(item_type=inner) | shapes.VarTupleType(item_type=inner):
            return [(item, inner) for item in value]
        case shapes.DictType(value_type=inner) if isinstance(value, dict):
            return [(item, inner) for item in value.values()]
        case shapes.Metadata(type=inner):
            return [(value, inner)]
        case shapes.UnionType(types=types):
            # Only the decoder can choose between two structs. `X | None` is the usual case.
            present = [each for each in types if not isinstance(each, shapes.NoneType)]
            return [(value, present[0])] if len(present) == 1 and value is not None else []
    return []


def require_bounded_integers(operation: str, kind: Any) -> None:
    """Require bounds: JSON integers are unbounded, and one that SQLite or PostgreSQL cannot store would be a 500."""
    for name in _unbounded(shape_of(kind), "", set()):
        raise TypeError(f"{operation}: {name} is an integer without bounds; declare it as Int64 or narrower")


def _unbounded(shape: shapes.Type, path: str, seen: set[type]) -> Iterator[str]:
    match shape:
        case shapes.IntType():
            if (shape.ge is None and shape.gt is None) or (shape.le is None and shape.lt is None):
                yield path
        case shapes.StructType(cls=cls, fields=fields) if cls not in seen:
            seen.add(cls)
            for each in fields:
                yield from _unbounded(each.type, f"{path}.{each.encode_name}".lstrip("."), seen)
        case shapes.ListType(item_type=inner) | shapes.VarTupleType(item_type=inner) | shapes.Metadata(type=inner):
            yield from _unbounded(inner, path, seen)
        case shapes.DictType(value_type=inner):
            yield from _unbounded(inner, path, seen)
        case shapes.UnionType(types=types):
            for alternative in types:
                yield from _unbounded(alternative, path, seen)
