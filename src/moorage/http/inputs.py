"""Parsing of request bytes into the structs that an operation declares. An error names the field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from moorage.core.errors import InvalidInput
from moorage.http.router import percent_decoded

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""An integer that both ledgers can store. JSON integers are unbounded, so every input must declare bounds."""

_AT_PATH = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")
_AT_FIELD = re.compile(r"(?:required|unknown) field `(?P<name>[^`]+)`")


def parse_body(decoder: msgspec.json.Decoder[Any], raw: bytes) -> Any:
    """Decode the body. Unknown fields are ignored, because newer clients send more of them."""
    try:
        body = decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise _invalid_input(error, part="body") from None
    except RecursionError:
        raise InvalidInput("the body is nested too deeply", field="body") from None
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        problem = "it is empty" if not raw.strip() else str(error)
        raise InvalidInput(f"the body is not valid JSON: {problem}", field="body") from None
    if raw.find(b"\\u0000") >= 0:
        _refuse_nul(msgspec.json.decode(raw), "")
    return body


def _refuse_nul(value: Any, path: str) -> None:
    """Refuse NUL for both ledgers: PostgreSQL cannot store it in text, SQLite can. Here the field is known."""
    if isinstance(value, str) and "\x00" in value:
        raise InvalidInput(f"{path or 'body'} must not contain a NUL character", field=path or "body")
    if isinstance(value, dict):
        for key, item in value.items():
            _refuse_nul(key, path)
            _refuse_nul(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for position, item in enumerate(value):
            _refuse_nul(item, f"{path}[{position}]")


def parse_query(kind: type[Any], repeatable: Mapping[str, bool], raw: bytes) -> Any:
    """Decode the query. Text is converted to numbers and booleans where the struct declares them."""
    try:
        return msgspec.convert(_pairs(raw, repeatable), kind, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid_input(error, part="query") from None


def _pairs(raw: bytes, repeatable: Mapping[str, bool]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for pair in raw.decode("latin-1").split("&"):
        if not pair:
            continue
        raw_name, _, raw_value = pair.replace("+", " ").partition("=")
        name = _unquoted(raw_name, "query")
        value = _unquoted(raw_value, name or "query")
        if repeatable.get(name):
            values.setdefault(name, []).append(value)
        elif name in values and name in repeatable:
            # Refused as ambiguous: proxies and servers differ in which of the two values they use.
            raise InvalidInput(f"{name} appears more than once in the query; give it once", field=name)
        else:
            values[name] = value
    return values


def _unquoted(text: str, name: str) -> str:
    try:
        value = percent_decoded(text)
    except ValueError:
        raise InvalidInput(f"{name} must be percent-encoded UTF-8", field=name) from None
    if "\x00" in value:
        raise InvalidInput(f"{name} must not contain a NUL character", field=name)
    return value


def _invalid_input(error: msgspec.ValidationError, *, part: str) -> InvalidInput:
    """Turn msgspec's message, such as `Expected int, got str - at $.a.b`, into an error that names the field."""
    text = str(error)
    path = ""
    if (found := _AT_PATH.search(text)) is not None:
        path, text = found["path"], text[: found.start()]
    if (named := _AT_FIELD.search(text)) is not None:
        path = f"{path}.{named['name']}" if path else named["name"]
        if "missing required" in text:
            what = f"the query parameter {path}" if part == "query" else path
            return InvalidInput(f"{what} is required", field=path)
    problem = text[0].lower() + text[1:]
    return InvalidInput(f"{path or part}: {problem}", field=path or part)
