"""Every kind of breaking change to an OpenAPI file. Each must be detected."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Document = dict[str, Any]
Edit = Callable[[Document], None]

_TIGHTER = {"minimum": 1, "minLength": 1, "minItems": 1, "maximum": -1, "maxLength": -1, "maxItems": -1}


@dataclass(frozen=True)
class Mutation:
    kind: str
    target: str
    edit: Edit

    def of(self, document: Document) -> Document:
        mutant = copy.deepcopy(document)
        self.edit(mutant)
        return mutant

    def __str__(self) -> str:
        return f"{self.kind}: {self.target}"


def slices(document: Document) -> Iterator[tuple[Document, list[Mutation]]]:
    """Yield the document reduced to each path, with the mutations of what no earlier path contained.

    Comparing one path takes half the time of comparing all of them, and there are many mutants.
    """
    sent: set[str] = set()
    received: set[str] = set()
    for path, item in document["paths"].items():
        alone = document | {"paths": {path: item}}
        in_requests, in_responses = reachable(alone)
        found = [each for verb in item for each in _of_operation(alone, path, verb)]
        for name, schema in document["components"]["schemas"].items():
            if name in in_requests - sent:
                found += _of_request_schema(name, schema)
            if name in in_responses - received:
                found += _of_response_schema(name, schema)
        sent |= in_requests
        received |= in_responses
        yield alone, found


def _of_request_schema(name: str, schema: Document) -> Iterator[Mutation]:
    at = ("components", "schemas", name)
    yield from _of_schema(at, schema)
    for field in schema.get("properties", {}):
        yield from _of_request_field((*at, "properties", field), schema)
    if "properties" in schema:
        yield Mutation("add a required field", name, _add_required(at))


def _of_response_schema(name: str, schema: Document) -> Iterator[Mutation]:
    at = ("components", "schemas", name)
    yield from _of_schema(at, schema)
    for field in schema.get("required", []):
        yield Mutation("make optional in a response", f"{name}.{field}", _drop_required(at, field))


def _of_schema(at: tuple[Any, ...], schema: Document) -> Iterator[Mutation]:
    yield from _of_enum(at, schema)
    for field in schema.get("properties", {}):
        yield from _of_field((*at, "properties", field), schema)


def _of_operation(document: Document, path: str, verb: str) -> Iterator[Mutation]:
    operation = document["paths"][path][verb]
    at = ("paths", path, verb)
    target = f"{verb} {path}"
    yield Mutation("remove the route", target, lambda d: d["paths"][path].pop(verb))
    yield Mutation("rename the route", target, _rename(("paths", path), verb, under=(f"{path}-moved", verb)))
    yield Mutation("rename the operation", target, _set((*at, "operationId"), "renamed"))
    yield Mutation("lower the stage", target, _set((*at, "x-uc-stage"), "experimental"))
    yield Mutation("rewrite since", target, _set((*at, "x-uc-since"), "2.1.0-moorage.9"))
    if operation["security"] == []:
        yield Mutation("require a token", target, _set((*at, "security"), [{"bearer": []}]))
    for status in operation["responses"]:
        moved = "299" if status.startswith("2") else "418"
        yield Mutation("change the status", f"{target} {status}", _rename((*at, "responses"), status, under=(moved,)))
    for content in operation["responses"][min(operation["responses"])].get("content", {}):
        contents = (*at, "responses", min(operation["responses"]), "content")
        yield Mutation("change the media type", f"{target} {content}", _rename(contents, content, under=("text/csv",)))
    if operation.get("requestBody", {}).get("required") is False:
        yield Mutation("make the body required", target, _set((*at, "requestBody", "required"), value=True))
    for position, parameter in enumerate(operation.get("parameters", [])):
        yield from _of_parameter((*at, "parameters", position), parameter, target)


def _of_parameter(at: tuple[Any, ...], parameter: Document, operation: str) -> Iterator[Mutation]:
    target = f"{operation} ?{parameter['name']}"
    if parameter["in"] != "path":
        yield Mutation("remove the parameter", target, _remove(at))
        yield Mutation("rename the parameter", target, _set((*at, "name"), "renamed"))
        if not parameter["required"]:
            yield Mutation("make the parameter required", target, _set((*at, "required"), value=True))
    yield Mutation("change the parameter's type", target, _retype((*at, "schema"), parameter["schema"]))
    yield from _tightened((*at, "schema"), parameter["schema"], target)


def _of_field(at: tuple[Any, ...], schema: Document) -> Iterator[Mutation]:
    *owner, field = at
    target = f"{at[2]}.{field}"
    yield Mutation("remove the field", target, _both(_remove(at), _drop_required(at[:3], field)))
    yield Mutation(
        "rename the field",
        target,
        _both(_rename(tuple(owner), field, under=(f"{field}_renamed",)), _drop_required(at[:3], field)),
    )
    yield Mutation("change the field's type", target, _retype(at, schema["properties"][field]))
    yield Mutation("rewrite since", target, _set((*at, "x-uc-since"), "2.1.0-moorage.9"))
    yield from _of_enum(at, schema["properties"][field])


def _of_request_field(at: tuple[Any, ...], schema: Document) -> Iterator[Mutation]:
    field = at[-1]
    target = f"{at[2]}.{field}"
    if field not in schema.get("required", []):
        yield Mutation("make required", target, _add_to_required(at[:3], field))
    yield from _tightened(at, schema["properties"][field], target)


def _of_enum(at: tuple[Any, ...], schema: Document) -> Iterator[Mutation]:
    values = schema.get("enum", [])
    if len(values) > 1:
        for value in values:
            left = [each for each in values if each != value]
            yield Mutation("shrink the enum", f"{'.'.join(map(str, at))} by {value}", _set((*at, "enum"), left))


def _tightened(at: tuple[Any, ...], schema: Document, target: str) -> Iterator[Mutation]:
    for bound, step in _TIGHTER.items():
        if bound in schema:
            visible = step * (1 + abs(schema[bound]) // 2**52)  # oasdiff reads bounds as doubles
            yield Mutation("tighten the bound", f"{target} {bound}", _set((*at, bound), schema[bound] + visible))
    if schema.get("type") == "string" and "maxLength" not in schema and "enum" not in schema:
        yield Mutation("set a new bound", target, _set((*at, "maxLength"), 7))
    if schema.get("default") not in (None, [], {}):
        yield Mutation("change the default", target, _set((*at, "default"), _other(schema["default"])))


def _other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int | float) else f"{value}x"


def _at(document: Document, at: tuple[Any, ...]) -> Any:
    for step in at:
        document = document[step]
    return document


def _set(at: tuple[Any, ...], value: Any) -> Edit:
    def edit(document: Document) -> None:
        _at(document, at[:-1])[at[-1]] = value

    return edit


def _remove(at: tuple[Any, ...]) -> Edit:
    def edit(document: Document) -> None:
        del _at(document, at[:-1])[at[-1]]

    return edit


def _rename(at: tuple[Any, ...], old: str, *, under: tuple[str, ...]) -> Edit:
    """Rename a key in its object, or (for a route) move it to a new path."""

    def edit(document: Document) -> None:
        value = _at(document, at).pop(old)
        if len(under) == 1:
            _at(document, at)[under[0]] = value
        else:
            document["paths"][under[0]] = {under[1]: value}

    return edit


def _retype(at: tuple[Any, ...], schema: Document) -> Edit:
    labels = {name: value for name, value in schema.items() if name.startswith("x-uc-")}
    return _set(at, {"type": "boolean" if schema.get("type") != "boolean" else "string", **labels})


def _drop_required(at: tuple[Any, ...], field: str) -> Edit:
    def edit(document: Document) -> None:
        schema = _at(document, at)
        schema["required"] = [each for each in schema.get("required", []) if each != field]

    return edit


def _add_to_required(at: tuple[Any, ...], field: str) -> Edit:
    def edit(document: Document) -> None:
        schema = _at(document, at)
        schema["required"] = [*schema.get("required", []), field]

    return edit


def _add_required(at: tuple[Any, ...]) -> Edit:
    return _both(_set((*at, "properties", "brand_new"), {"type": "string"}), _add_to_required(at, "brand_new"))


def _both(first: Edit, second: Edit) -> Edit:
    def edit(document: Document) -> None:
        first(document)
        second(document)

    return edit


def reachable(document: Document) -> tuple[set[str], set[str]]:
    """The schemas that clients send, and those that they receive."""
    operations = [item[verb] for item in document["paths"].values() for verb in item]
    inputs = [[each.get("requestBody"), each.get("parameters")] for each in operations]
    return _refs(document, inputs), _refs(document, [each["responses"] for each in operations])


def _refs(document: Document, node: Any) -> set[str]:
    found: set[str] = set()
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            reference = part.get("$ref")
            if isinstance(reference, str) and reference not in found:
                found.add(reference)
                waiting.append(_at(document, tuple(reference.removeprefix("#/").split("/"))))
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)
    return {reference.rsplit("/", 1)[1] for reference in found if "/schemas/" in reference}
