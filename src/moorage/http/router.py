"""Routing: from a verb and a raw path to a route and its parameters.

The *raw* path is split first, and then each segment is decoded. A name may contain an encoded slash
(`%2F`), Iceberg separates namespace levels by `%1F`, and Lance by `%24`. Decoding the path before
splitting it would lose the difference.
"""

from __future__ import annotations

import re
from typing import Generic, TypeVar

from moorage.core.errors import InvalidInput, MethodNotAllowed, RouteNotFound

T = TypeVar("T")

_BYTE_OF_HEX = {
    f"{high}{low}": int(f"{high}{low}", 16) for high in "0123456789abcdefABCDEF" for low in "0123456789abcdefABCDEF"
}

_PARAMETER = re.compile(r"^\{(?P<name>[a-z_-]+)(?P<rest>:rest)?\}(?P<suffix>:[a-z_-]+)?$")

_MOST_CACHED = 4096
_LONGEST_CACHED = 512

UNREADABLE = "\x00unreadable"
"""Replaces a segment that is not percent-encoded UTF-8. No static segment and no valid value equals it."""


class Pattern:
    """A declared path, such as `/tables/{full_name}:compact`."""

    __slots__ = ("names", "path", "rest", "segments", "suffix")

    def __init__(self, path: str) -> None:
        if not path.startswith("/") or (path.endswith("/") and path != "/"):
            raise TypeError(f"{path!r} must start with a slash and not end with one")
        self.path = path
        self.names: list[str] = []
        self.segments: list[str | None] = []
        self.suffix = ""
        self.rest = False
        parts = path[1:].split("/")
        for part in parts:
            self._take(part, last=len(self.segments) == len(parts) - 1)
        if len(set(self.names)) != len(self.names):
            raise TypeError(f"{path!r} names a parameter twice")

    def _take(self, part: str, *, last: bool) -> None:
        if "{" not in part and "}" not in part:
            self.segments.append(part)
            return
        match = _PARAMETER.match(part)
        if match is None:
            raise TypeError(f"{part!r} in {self.path!r} is neither a name nor a {{parameter}}")
        if not last and (match["rest"] or match["suffix"]):
            raise TypeError(f"{part!r} in {self.path!r} may only be the last segment")
        self.names.append(match["name"])
        self.segments.append(None)
        self.rest = match["rest"] is not None
        self.suffix = (match["suffix"] or "")[1:]

    def shape(self) -> str:
        """Equal for two patterns that match the same requests."""
        text = "/" + "/".join("{}" if segment is None else segment for segment in self.segments)
        return f"{text}{'*' if self.rest else ''}{':' + self.suffix if self.suffix else ''}"


class _Leaf(Generic[T]):
    __slots__ = ("by_verb",)

    def __init__(self) -> None:
        self.by_verb: dict[str, tuple[T, list[str]]] = {}


class _Node(Generic[T]):
    """One segment of the routing tree. `suffixed` holds custom methods such as `{name}:compact`."""

    __slots__ = ("leaf", "named", "rest", "static", "suffixed")

    def __init__(self) -> None:
        self.static: dict[str, _Node[T]] = {}
        self.named: _Node[T] | None = None
        self.rest: _Leaf[T] = _Leaf()
        self.suffixed: dict[str, _Leaf[T]] = {}
        self.leaf: _Leaf[T] = _Leaf()


_Found = list[tuple[_Leaf[T], list[str]]]


class Router(Generic[T]):
    """Static segments take precedence over parameters, and parameters over a rest."""

    def __init__(self) -> None:
        self._root: _Node[T] = _Node()
        self._cache: dict[tuple[str, bytes], tuple[T, dict[str, str]]] = {}

    def add(self, verb: str, pattern: Pattern, target: T) -> None:
        leaf = self._leaf_of(pattern)
        if verb in leaf.by_verb:
            raise TypeError(f"{verb} {pattern.path} is declared twice")
        leaf.by_verb[verb] = (target, pattern.names)
        self._cache.clear()

    def _leaf_of(self, pattern: Pattern) -> _Leaf[T]:
        node = self._root
        parent = node
        for segment in pattern.segments:
            parent = node
            if segment is None:
                if parent.named is None:
                    parent.named = _Node()
                node = parent.named
            else:
                node = parent.static.setdefault(segment, _Node())
        if pattern.rest:
            return parent.rest
        if pattern.suffix:
            return node.suffixed.setdefault(pattern.suffix, _Leaf())
        return node.leaf

    def find(self, verb: str, raw_path: bytes) -> tuple[T, dict[str, str]]:
        """The target and its decoded parameters. Raises RouteNotFound, MethodNotAllowed, InvalidInput."""
        cached = self._cache.get((verb, raw_path))
        if cached is None:
            cached = self._search(verb, raw_path)
            if len(raw_path) <= _LONGEST_CACHED:
                if len(self._cache) == _MOST_CACHED:
                    self._cache.clear()
                self._cache[verb, raw_path] = cached
        target, params = cached
        return target, params.copy()

    def _search(self, verb: str, raw_path: bytes) -> tuple[T, dict[str, str]]:
        found: _Found[T] = []
        _collect_matches(self._root, _segments(raw_path), 0, [], found)
        for candidate, values in found:
            if (hit := candidate.by_verb.get(verb)) is not None:
                target, names = hit
                return target, _parameters(names, values)
        allowed = sorted({each for candidate, _ in found for each in candidate.by_verb})
        if allowed:
            raise MethodNotAllowed(f"{verb} is not supported at this path; use {', '.join(allowed)}", allowed=allowed)
        raise RouteNotFound(f"no operation exists at {verb} {raw_path.decode('ascii', 'backslashreplace')}")


def _parameters(names: list[str], values: list[str]) -> dict[str, str]:
    params = dict(zip(names, values, strict=True))
    for name, value in params.items():
        if "\x00" in value:
            raise InvalidInput(f"{name} in the path must be percent-encoded UTF-8 without NUL", field=name)
    return params


def _collect_matches(node: _Node[T], segments: list[str], index: int, values: list[str], found: _Found[T]) -> None:
    """Collect every leaf that matches, best first. The caller then picks the first one that supports the verb."""
    if index == len(segments):
        if node.leaf.by_verb:
            found.append((node.leaf, values))
        return
    segment = segments[index]
    if (child := node.static.get(segment)) is not None:
        _collect_matches(child, segments, index + 1, values, found)
    named = node.named
    if named is not None and segment:
        if named.suffixed and index == len(segments) - 1:
            name, _, suffix = segment.rpartition(":")
            if name and (leaf := named.suffixed.get(suffix)) is not None:
                found.append((leaf, [*values, name]))
        _collect_matches(named, segments, index + 1, [*values, segment], found)
    if node.rest.by_verb:
        found.append((node.rest, [*values, "/".join(segments[index:])]))


def _segments(raw_path: bytes) -> list[str]:
    if b"%" not in raw_path and raw_path.isascii():
        return raw_path.decode("ascii").split("/")[1:]
    return [_decoded(segment) for segment in raw_path.decode("latin-1").split("/")[1:]]


def _decoded(segment: str) -> str:
    try:
        return percent_decoded(segment)
    except ValueError:
        # Keep a suffix after the last colon: it may be a custom method, and its route names the invalid parameter.
        return UNREADABLE + "".join(segment.rpartition(":")[1:]) if ":" in segment else UNREADABLE


def percent_decoded(text: str) -> str:
    """Decode percent-encoded UTF-8, given one byte per character. Raises ValueError if it is not valid."""
    if "%" not in text and text.isascii():
        return text
    literal, *escapes = text.split("%")
    octets = bytearray(literal, "latin-1")
    for escape in escapes:
        octet = _BYTE_OF_HEX.get(escape[:2])
        if octet is None:
            raise ValueError(f"%{escape[:2]} is not a percent-encoded byte")
        octets.append(octet)
        octets += escape[2:].encode("latin-1")
    return octets.decode("utf-8")
