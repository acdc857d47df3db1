"""An incomplete or wrong route declaration fails at import, with a message that names the problem."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import msgspec
import pytest

from moorage.core.errors import Conflict, NameTaken
from moorage.http import Answer, Call, Deprecation, Example, Int64, NoBody, NoQuery
from moorage.http.errors import WIRE, Wire, wire_of
from tests.unit.http.harbour import SINCE, Ship, app_of, new_api


class Loose(msgspec.Struct):
    count: int = 0


class LooseInside(msgspec.Struct):
    items: list[dict[str, Loose | None]] = []


class Bounded(msgspec.Struct, frozen=True):
    count: Int64 = 0


GOOD: dict[str, Any] = {
    "operation": "createShip",
    "summary": "Register a ship.",
    "stage": "ga",
    "since": SINCE,
    "body": Ship,
    "answer": Ship,
    "example": Example(body={"name": "Esmeralda"}, answer={"name": "Esmeralda", "flag": "CL"}),
}


async def create_ship(call: Call[Ship, NoQuery], ports: Any) -> Answer:
    return Answer.json(call.body)


def declare(
    path: str = "/ships",
    handler: Callable[..., Any] = create_ship,
    *,
    without: str | None = None,
    **changes: Any,
) -> None:
    new_api().post(path, **{name: value for name, value in (GOOD | changes).items() if name != without})(handler)


def test_a_complete_declaration_is_accepted() -> None:
    declare()


@pytest.mark.parametrize("name", ["operation", "summary", "stage", "since", "example"])
def test_a_declaration_without_a_required_part_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=name):
        declare(without=name)


def test_a_route_takes_the_defaults_of_its_api_and_section() -> None:
    api = new_api(defaults={"stage": "ga", "since": SINCE, "tags": ("ships",)})
    own = {name: value for name, value in GOOD.items() if name not in ("stage", "since")}
    section = api.section(file="ships.yaml", stage="public_preview")
    section.post("/ships", **own)(create_ship)
    section.put("/ships", **own, stage="private_preview")(create_ship)
    api.patch("/ships", **own)(create_ship)
    assert [(route.verb, route.stage, route.since, route.file) for route in api.routes] == [
        ("POST", "public_preview", SINCE, "ships.yaml"),
        ("PUT", "private_preview", SINCE, "ships.yaml"),
        ("PATCH", "ga", SINCE, "harbour.yaml"),
    ]


@pytest.mark.parametrize("stage", ["beta", "", "GA"])
def test_a_stage_is_one_of_three(stage: str) -> None:
    with pytest.raises(TypeError, match="stage must be one of private_preview, public_preview, ga"):
        declare(stage=stage)


@pytest.mark.parametrize("since", ["2.1.0", "2.1.0-uc.1", "9.9.9-moorage.1", "2.1.0-moorage.99"])
def test_since_is_a_release_that_exists(since: str) -> None:
    with pytest.raises(TypeError, match="since must be a spec release"):
        declare(since=since)


@pytest.mark.parametrize(
    ("example", "problem"),
    [
        (Example(answer={"name": "x"}), "body is invalid"),
        (Example(body={"name": 3}, answer={"name": "x"}), "body is invalid"),
        (Example(body={"name": "x"}, answer={"flag": "x"}), "answer is invalid"),
        (Example(body={"name": "x", "colour": 1}, answer={"name": "x"}), "'colour' that does not exist"),
        (Example(body={"name": "x"}, answer={"name": "x", "colour": 1}), "'colour' that does not exist"),
        (Example(path={"id": "x"}, body={"name": "x"}, answer={"name": "x"}), "must have exactly"),
        (Example(query={"x": 1}, body={"name": "x"}, answer={"name": "x"}), "'x' that does not exist"),
    ],
)
def test_an_example_that_would_not_work_is_refused(example: Example, problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        declare(example=example)


@pytest.mark.parametrize(("kind", "field"), [(Loose, "count"), (LooseInside, "items.count")])
def test_an_integer_without_bounds_is_refused(kind: type, field: str) -> None:
    async def handler(call: Any, ports: Any) -> Answer:
        return Answer.empty()

    handler.__annotations__["call"] = Call[kind, NoQuery]  # type: ignore[valid-type]
    with pytest.raises(TypeError, match=f"{field} is an integer without bounds"):
        declare(handler=handler, body=kind, example=Example(body={}, answer={"name": "x"}))


def test_a_handler_that_expects_another_body_is_refused() -> None:
    async def other(call: Call[Bounded, NoQuery], ports: Any) -> Answer:
        return Answer.empty()

    with pytest.raises(TypeError, match=r"must be Call\[Ship, NoQuery\]"):
        declare(handler=other)


def test_a_path_parameter_must_be_described() -> None:
    with pytest.raises(TypeError, match="does not describe the parameter 'mast'"):
        declare("/ships/{mast}", example=Example(path={"mast": "1"}, body={"name": "x"}, answer={"name": "x"}))


def test_a_tag_must_be_described() -> None:
    with pytest.raises(TypeError, match="does not describe the tag 'boats'"):
        declare(tags=("boats",))


def test_two_routes_at_one_address_are_refused() -> None:
    first, second = new_api("one"), new_api("two")
    for api in (first, second):
        api.post("/ships", **GOOD)(create_ship)
    with pytest.raises(TypeError, match="POST /harbour/ships is declared twice"):
        app_of(first, second)


def test_an_error_that_is_not_in_the_table_gets_the_row_of_its_parent() -> None:
    assert wire_of({Conflict: Wire(409, "CONFLICT")}, NameTaken) == Wire(409, "CONFLICT")


def test_no_two_errors_share_a_wire_name() -> None:
    names = [wire.name for wire in WIRE.values()]
    assert sorted(names) == sorted(set(names))


def test_deprecation_headers_state_the_start_the_sunset_and_the_replacement() -> None:
    deprecation = Deprecation(
        since=date(2026, 11, 1), sunset=date(2027, 5, 1), replaced_by="/harbour/v2/ships", note="Use version 2."
    )
    assert deprecation.headers() == (
        (b"deprecation", b"@1793491200"),
        (b"sunset", b"Sat, 01 May 2027 00:00:00 GMT"),
        (b"link", b'</harbour/v2/ships>; rel="successor-version"'),
    )


def test_a_get_is_not_a_mutation_and_a_post_is_unless_declared_otherwise() -> None:
    api = new_api()

    async def read(call: Call[NoBody, NoQuery], ports: Any) -> Answer:
        return Answer.empty()

    shared: dict[str, Any] = {"summary": "Read.", "stage": "ga", "since": SINCE, "example": Example()}
    api.get("/a", operation="a", **shared)(read)
    api.post("/b", operation="b", **shared)(read)
    api.post("/c", operation="c", mutation=False, **shared)(read)
    assert [route.mutation for route in api.routes] == [False, True, False]
