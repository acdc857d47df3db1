"""The SQL files of a project: which tables and views they define, and which tables each query reads. Pure.

SDP sends these files to Spark as text, and reports nothing of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal

import msgspec
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

DIALECT: Final = "databricks"
"""Spark's own in sqlglot does not know `FROM STREAM t`."""
_FLOW: Final = re.compile(
    r"\s*CREATE\s+FLOW\s+(?P<name>\S+)(?:\s+COMMENT\s+'(?:[^'\\]|\\.)*')?\s+AS\s+(?P<insert>INSERT\b.*)",
    re.IGNORECASE | re.DOTALL,
)
_KINDS: Final = re.compile(
    r"\s*CREATE\s+(?:OR\s+REFRESH\s+)?(?P<kind>STREAMING\s+TABLE|MATERIALIZED\s+VIEW|TEMPORARY\s+VIEW)", re.IGNORECASE
)

Kind = Literal["table", "view", "temporary", "flow"]
_NAMES: Final[dict[str, Kind]] = {"STREAMING": "table", "MATERIALIZED": "view", "TEMPORARY": "temporary"}


class Reads(msgspec.Struct, frozen=True, kw_only=True):
    """What a query reads."""

    tables: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    """Files and folders, as in FROM json.`/path`."""


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """A definition in a SQL file."""

    kind: Kind
    name: str
    target: str
    """What its query fills. A flow fills another table."""
    reads: Reads
    line: int
    properties: dict[str, str]
    query: exp.Expr | None
    """None: a streaming table that flows fill."""


class SqlNotUnderstood(Exception):
    """A statement of a SQL file cannot be parsed."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line, self.reason = line, reason


def statements_of(text: str) -> Iterator[Statement]:
    """The definitions of a file, in order. Other statements are left to Spark, which refuses them."""
    for tokens in _split(sqlglot.tokenize(text, dialect=DIALECT)):
        found = _statement(text[tokens[0].start : tokens[-1].end + 1], _line_of(text, tokens[0]))
        if found is not None:
            yield found


def _line_of(text: str, token: Token) -> int:
    return text.count("\n", 0, token.start) + 1


def _split(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    part: list[Token] = []
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            if part:
                yield part
            part = []
        else:
            part.append(token)
    if part:
        yield part


def _statement(text: str, line: int) -> Statement | None:
    flow = _FLOW.fullmatch(text)
    kind = _KINDS.match(text)
    if flow is None and kind is None:
        return None
    try:
        parsed = sqlglot.parse_one(text if flow is None else flow["insert"], dialect=DIALECT)
    except SqlglotError as error:
        raise SqlNotUnderstood(line, str(error).split("\n", 1)[0]) from error
    target = parsed.this if isinstance(parsed, exp.Create | exp.Insert) else None
    if isinstance(target, exp.Schema):  # with a list of columns
        target = target.this
    if not isinstance(target, exp.Table):
        raise SqlNotUnderstood(line, "expected CREATE … AS query, or CREATE FLOW … AS INSERT INTO … query")
    name = table_name(target)
    query = parsed.args.get("expression")
    return Statement(
        kind="flow" if kind is None else _NAMES[kind["kind"].split()[0].upper()],
        name=name if flow is None else flow["name"].replace("`", ""),
        target=name,
        reads=Reads() if query is None else _reads(query),
        line=line,
        properties=_properties(parsed),
        query=query,
    )


def reads_of(query: str) -> Reads:
    """What a query reads that is not in a SQL file."""
    try:
        return _reads(sqlglot.parse_one(query, dialect=DIALECT))
    except SqlglotError as error:
        raise SqlNotUnderstood(1, str(error).split("\n", 1)[0]) from error


def _reads(query: exp.Expr) -> Reads:
    """Without common table expressions and table functions."""
    local = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    tables, sources = set(), set()
    for table in query.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier):
            continue
        if "/" in table.name:
            sources.add(table.name)
        elif (name := table_name(table)).lower() not in local:
            tables.add(name)
    return Reads(tables=tuple(sorted(tables)), sources=tuple(sorted(sources)))


def table_name(table: exp.Table) -> str:
    return ".".join(part.name for part in table.parts)


def _properties(parsed: exp.Expr) -> dict[str, str]:
    return {each.name: each.text("value") for each in parsed.find_all(exp.Property) if each.name}
