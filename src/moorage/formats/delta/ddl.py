"""Types as Spark writes them in SQL: `struct<a:int,b:array<string>>`, Unity's `type_text`.

Spark's connector parses `type_text` as DDL, so names that are not plain identifiers are quoted.
"""

from __future__ import annotations

import re
from typing import Final

from moorage.core.errors import InvalidInput
from moorage.formats.delta.schema import DEEPEST, Array, DataType, Decimal, Field, Map, Primitive, Schema

SQL_WORDS: Final = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}
DELTA_WORDS: Final = {sql: delta for delta, sql in SQL_WORDS.items()} | {
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "timestamp_ltz": "timestamp",
}
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOKEN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|'((?:[^'\\]|\\.)*)'|([A-Za-z0-9_]+)|([<>(),:])|(\S))")


def type_text(data_type: DataType) -> str:
    """The type in SQL, without spaces, like Spark's own catalog strings."""
    match data_type:
        case Primitive(name=name):
            return SQL_WORDS.get(name, name)
        case Decimal(precision=precision, scale=scale):
            return f"decimal({precision},{scale})"
        case Array(element=element):
            return f"array<{type_text(element)}>"
        case Map(key=key, value=value):
            return f"map<{type_text(key)},{type_text(value)}>"
        case Schema(fields=fields):
            return f"struct<{','.join(f'{_quoted(field.name)}:{type_text(field.type)}' for field in fields)}>"


def _quoted(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def parse_type_text(text: str, *, path: str = "type_text") -> DataType:
    """Parse an SQL type. SQL does not state whether elements are nullable, so they are."""
    return _Parser(text, path).whole()


class _Parser:
    def __init__(self, text: str, path: str) -> None:
        self.text, self.path = text, path
        self.tokens = [(found.lastindex or 0, found[found.lastindex or 0]) for found in _TOKEN.finditer(text)]
        self.at = 0

    def whole(self) -> DataType:
        data_type = self.type(0)
        if self.at != len(self.tokens):
            raise self._error()
        return data_type

    def type(self, depth: int) -> DataType:
        if depth > DEEPEST:
            raise InvalidInput(f"{self.path} is nested more than {DEEPEST} levels deep", field=self.path)
        word = self._word().lower()
        if word == "array":
            self._expect("<")
            element = self.type(depth + 1)
            self._expect(">")
            return Array(element, contains_null=True)
        if word == "map":
            self._expect("<")
            key = self.type(depth + 1)
            self._expect(",")
            value = self.type(depth + 1)
            self._expect(">")
            return Map(key, value, value_contains_null=True)
        if word == "struct":
            return self._struct(depth)
        return self._primitive(word)

    def _struct(self, depth: int) -> Schema:
        self._expect("<")
        fields: list[Field] = []
        while not self._takes(">"):
            if fields:
                self._expect(",")
            name = self._word()
            self._takes(":")
            data_type = self.type(depth + 1)
            nullable = not (self._takes("not") and self._takes("null"))
            metadata = {"comment": self._word()} if self._takes("comment") else {}
            fields.append(Field(name, data_type, nullable, metadata))
        return Schema(tuple(fields))

    def _primitive(self, word: str) -> DataType:
        name = DELTA_WORDS.get(word, word)
        arguments = self._arguments() if self._takes("(") else []
        if name == "decimal":
            precision, scale = (*arguments, *(["10", "0"][len(arguments) :]))[:2]
            if not (precision.isdecimal() and scale.isdecimal() and int(scale) <= int(precision) <= 38):
                raise InvalidInput(f"{self.path}: {self.text!r} is not a valid decimal type", field=self.path)
            return Decimal(int(precision), int(scale))
        while name.startswith("interval") and self._peek() in (
            "year",
            "month",
            "day",
            "hour",
            "minute",
            "second",
            "to",
        ):
            name += " " + self._word().lower()
        return Primitive(f"{name}({','.join(arguments)})" if arguments else name)

    def _arguments(self) -> list[str]:
        arguments = [self._word()]
        while not self._takes(")"):
            self._expect(",")
            arguments.append(self._word())
        return arguments

    def _peek(self) -> str:
        return self.tokens[self.at][1].lower() if self.at < len(self.tokens) else ""

    def _takes(self, token: str) -> bool:
        if self._peek() != token:
            return False
        self.at += 1
        return True

    def _expect(self, token: str) -> None:
        if not self._takes(token):
            raise self._error()

    def _word(self) -> str:
        if self.at == len(self.tokens) or self.tokens[self.at][0] > 3:
            raise self._error()
        kind, text = self.tokens[self.at]
        self.at += 1
        return text.replace("``", "`") if kind == 1 else text

    def _error(self) -> InvalidInput:
        where = self.tokens[self.at][1] if self.at < len(self.tokens) else "the end"
        return InvalidInput(f"{self.path}: {self.text!r} is not an SQL type; it fails at {where!r}", field=self.path)
