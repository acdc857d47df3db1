"""Finds the tables that a SQL text names, and replaces their names. Pure.

Spark resolves `lake.sea.boats` in the catalog `lake`, which is Iceberg's. A managed Delta table is therefore replaced
by a temporary view or by the path of its shadow. This reads tokens, not grammar: strings, comments and quoted names are
recognised, so a name within them is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

PLACE: Final = "{table}"
"""In a statement: where the name of the changed table belongs."""
_TOKEN: Final = re.compile(
    r"""(?P<skip>\s+|--[^\n]*|/\*.*?\*/)
      | (?P<text>[rR]?'(?:[^'\\]|\\.|'')*'|[rR]?"(?:[^"\\]|\\.|"")*")
      | (?P<name>`(?:[^`]|``)+`|[^\W\d]\w*|\d+[^\W\d]\w*)
      | (?P<other>\d+(?:\.\d+)?|.)""",
    re.VERBOSE | re.DOTALL,
)
_NO_ALIAS: Final = frozenset(
    (
        *("using", "set", "where", "on", "when", "select", "values", "table", "by", "replace", "partition"),
        *("with", "from", "insert", "options"),
        *("join", "inner", "left", "right", "full", "cross", "anti", "semi", "natural", "lateral", "tablesample"),
        *("group", "order", "having", "limit", "offset", "window", "cluster", "distribute", "sort", "qualify"),
        *("union", "except", "intersect", "minus", "pivot", "unpivot"),
        *("version", "timestamp", "for", "system_version", "system_time"),
    )
)
"""The words that may follow a table. Any other name is its alias."""
_CHANGES: Final = {"merge": ("into",), "update": (), "delete": ("from",), "insert": ("into", "overwrite")}
_READING: Final = frozenset(("select", "with", "from", "values", "explain", *_CHANGES))
"""The first words of statements that read rows of every table but their target."""
_TIME_TRAVEL = re.compile(
    r"\s+(?:for\s+)?(?:system_)?(?P<kind>version|timestamp)\s+as\s+of\s+(?P<value>\d+|'[^']*')", re.IGNORECASE
)


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """A table named in a statement."""

    name: str
    """The full name, without quotes: `lake.sea.boats`."""
    start: int
    end: int
    is_target: bool = False
    is_source: bool = False
    """Whether the statement reads rows or columns of the table."""
    is_column: bool = False
    """Whether a column follows the name, as in `lake.sea.boats.id`."""
    needs_alias: bool = False
    """Whether the columns of the table are reached by its own name, because it has no alias."""
    version: int | None = None
    timestamp: str | None = None


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """One statement of a text."""

    text: str
    verb: str
    """The first word, in lower case."""
    is_overwrite: bool = False
    tables: tuple[Named, ...] = ()

    @property
    def target(self) -> Named | None:
        """The table whose rows the statement changes."""
        return next((named for named in self.tables if named.is_target), None)

    def replaced(self, with_what: Callable[[Named], str | None]) -> str:
        """The text with other names. None keeps a name."""
        parts, at = list[str](), 0
        for named in self.tables:
            new = with_what(named)
            if new is None:
                continue
            last = named.name.rpartition(".")[2].replace("`", "``")
            written = f"`{last}`" if named.is_column else new
            alias = f" AS `{last}`" if named.needs_alias else ""
            parts += [self.text[at : named.start], written, alias]
            at = named.end
        return "".join([*parts, self.text[at:]])


class _Token(msgspec.Struct, frozen=True):
    kind: str
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        return self.text.lower() if self.kind == "name" and not self.text.startswith("`") else ""

    @property
    def plain(self) -> str:
        return self.text[1:-1].replace("``", "`") if self.text.startswith("`") else self.text


def statements(text: str) -> list[Statement]:
    """The statements of a text, which semicolons separate."""
    found, start = list[Statement](), 0
    ends = [token.start for token in _tokens(text) if token.text == ";"]
    for end in (*ends, len(text)):
        part = text[start:end].strip()
        if any(_tokens(part)):
            found.append(parse(part))
        start = end + 1
    return found


def with_table(text: str, name: str) -> str:
    """A statement with the name of its table in place of `{table}`, which in a string is a part of the string."""
    parts, at = list[str](), 0
    for token in _tokens(text):
        if token.text == PLACE[0] and text.startswith(PLACE, token.start):
            parts += [text[at : token.start], name]
            at = token.start + len(PLACE)
    return "".join([*parts, text[at:]])


def parse(text: str) -> Statement:
    """One statement and the tables that it names."""
    tokens = list(_tokens(text))
    verb = tokens[0].word if tokens else ""
    words = [token.word for token in tokens[:5]]
    target_at = _target_position(words)
    named = tuple(_named(text, tokens, target_at))
    return Statement(text=text, verb=verb, is_overwrite=words[:2] == ["insert", "overwrite"], tables=named)


def _target_position(words: list[str]) -> int | None:
    """The index of the token with which the changed table begins."""
    if words[:4] == ["merge", "with", "schema", "evolution"]:
        return 5 if words[4:] == ["into"] else None
    if not words or words[0] not in _CHANGES:
        return None
    particles = _CHANGES[words[0]]
    if particles and (len(words) < 2 or words[1] not in particles):
        return None
    at = 2 if particles else 1
    return at + 1 if words[0] == "insert" and len(words) > at and words[at] == "table" else at


def _tokens(text: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(text):
        if found.lastgroup is not None and found.lastgroup != "skip":
            yield _Token(found.lastgroup, found.group(), found.start(), found.end())


def _named(text: str, tokens: list[_Token], target_at: int | None) -> Iterator[Named]:
    at = 0
    while at < len(tokens):
        parts = _dotted(tokens, at)
        if len(parts) < 3:
            at += max(1, 2 * len(parts) - 1)
            continue
        after = at + 2 * len(parts) - 1
        is_column, is_target = len(parts) > 3, at == target_at
        end, version, timestamp = parts[2].end, None, None
        if not is_column and not is_target and (travel := _TIME_TRAVEL.match(text, end)):
            end, value = travel.end(), travel["value"]
            is_version = travel["kind"].lower() == "version"
            version, timestamp = (int(value.strip("'")), None) if is_version else (None, value.strip("'"))
            after = next((n for n, token in enumerate(tokens) if token.start >= end), len(tokens))
        inserts, describes = is_target and tokens[0].word == "insert", tokens[0].word in ("describe", "desc")
        yield Named(
            name=".".join(part.plain for part in parts[:3]),
            start=parts[0].start,
            end=end,
            is_target=is_target,
            is_source=is_column or (not is_target and _reads(tokens, at)),
            is_column=is_column,
            needs_alias=not is_column and not inserts and not describes and not _has_alias(tokens, after),
            version=version,
            timestamp=timestamp,
        )
        at = after


def _reads(tokens: list[_Token], at: int) -> bool:
    """Whether the statement reads the table that is named at a token, and does nothing else with it."""
    verb, before = tokens[0].word, {token.word for token in tokens[1:at]}
    if verb != "show" and not before.isdisjoint(("from", "join")):
        return True  # of a query in the statement
    if verb in ("describe", "desc"):
        return before <= {"table", "extended", "formatted"}
    return verb in _READING or tokens[0].text == "("


def _dotted(tokens: list[_Token], at: int) -> list[_Token]:
    """The names from a token on that dots join."""
    parts: list[_Token] = []
    while at < len(tokens) and tokens[at].kind == "name":
        parts.append(tokens[at])
        if at + 1 >= len(tokens) or tokens[at + 1].text != ".":
            break
        at += 2
    return parts


def _has_alias(tokens: list[_Token], at: int) -> bool:
    if at >= len(tokens):
        return False
    return tokens[at].kind == "name" and tokens[at].word not in _NO_ALIAS
