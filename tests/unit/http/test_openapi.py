from __future__ import annotations

from datetime import date
from typing import Annotated, Any

import msgspec
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from moorage.core.errors import NameTaken
from moorage.http import SPEC_RELEASE, Answer, Api, Call, Deprecation, Example
from moorage.http.openapi import documents
from tests.unit.http.harbour import Ship, api_that, new_api


class Berth(msgspec.Struct, frozen=True, kw_only=True):
    """Where a ship is moored."""

    ship: Ship | None = None
    depth: Annotated[
        float, msgspec.Meta(description="In metres.", extra_json_schema={"x-uc-stage": "private_preview"})
    ] = 0.0


class Search(msgspec.Struct, frozen=True):
    text: Annotated[str, msgspec.Meta(description="What to look for.")]
    flag: list[str] = []


async def act(call: Call[Any, Any]) -> Answer:
    return Answer.empty()


def document(*apis: Api) -> dict[str, Any]:
    (written,) = documents(apis).values()
    OpenAPIV31SpecValidator(written).validate()
    return written


def operation(**options: Any) -> dict[str, Any]:
    (item,) = document(api_that(act, **options))["paths"].values()
    (found,) = item.values()
    assert isinstance(found, dict)
    return found


def test_a_document_carries_the_release_and_the_routes() -> None:
    written = document(api_that(act))
    assert written["info"]["version"] == SPEC_RELEASE
    assert list(written["paths"]) == ["/harbour/ships"]


@pytest.mark.parametrize(("stage", "tags"), [("ga", ["ships"]), ("public_preview", ["ships", "preview"])])
def test_an_operation_that_is_not_ga_is_tagged_preview(stage: str, tags: list[str]) -> None:
    assert operation(stage=stage)["tags"] == tags


def test_a_schema_has_the_most_stable_stage_of_its_uses_and_a_field_may_override_it() -> None:
    api = api_that(act, stage="private_preview", answer=Berth, example=Example(answer={}))
    other = api_that(
        act, path="/berths", operation="berths", stage="public_preview", answer=Berth, example=Example(answer={})
    )
    api.routes += other.routes
    berth = document(api)["components"]["schemas"]["Berth"]
    assert berth["x-uc-stage"] == "public_preview"
    assert berth["properties"]["ship"]["x-uc-stage"] == "public_preview"
    assert berth["properties"]["depth"]["x-uc-stage"] == "private_preview"
    assert berth["properties"]["depth"]["x-uc-since"] == "2.1.0-moorage.1"


def test_a_query_becomes_parameters() -> None:
    parameters = operation(query=Search, example=Example(query={"text": "Esmeralda"}))["parameters"]
    assert [(each["name"], each["in"], each["required"]) for each in parameters] == [
        ("text", "query", True),
        ("flag", "query", False),
    ]
    assert parameters[0]["description"] == "What to look for."
    assert parameters[0]["example"] == "Esmeralda"


def test_a_mutation_takes_an_idempotency_key_and_a_read_does_not() -> None:
    assert [each["name"] for each in operation(verb="post")["parameters"]] == ["Idempotency-Key"]
    assert "parameters" not in operation(verb="post", mutation=False)
    assert "parameters" not in operation(verb="post", keyed=False)


def test_additional_success_responses_are_documented() -> None:
    assert operation(also={202: "Later."})["responses"]["202"]["description"] == "Later."


def test_a_rest_parameter_is_documented_as_a_plain_parameter() -> None:
    written = document(api_that(act, path="/files/{name:rest}", example=Example(path={"name": "a/b"})))
    assert list(written["paths"]) == ["/harbour/files/{name}"]


def test_errors_that_share_a_status_are_documented_in_one_response() -> None:
    written = document(api_that(act, verb="post", errors=(NameTaken,)))
    responses = written["paths"]["/harbour/ships"]["post"]["responses"]
    assert responses["409"] == {"$ref": "#/components/responses/harbour_NAME_TAKEN"}
    assert responses["500"] == {"$ref": "#/components/responses/harbour_INTERNAL_ERROR_or_OUTCOME_UNKNOWN"}
    shared = written["components"]["responses"]["harbour_NAME_TAKEN"]
    example = shared["content"]["application/json"]["examples"]["NAME_TAKEN"]["value"]
    assert (example["error"]["code"], example["error"]["advice"]) == ("NAME_TAKEN", "after_refresh")


def test_a_public_operation_needs_no_token() -> None:
    assert operation(public=True)["security"] == []
    assert operation()["security"] == [{"bearer": []}]


def test_a_deprecated_operation_names_its_replacement_and_sunset() -> None:
    deprecation = Deprecation(since=date(2026, 11, 1), sunset=date(2027, 5, 1), replaced_by="/v2/ships", note="Use v2.")
    found = operation(deprecated=deprecation)
    assert (found["deprecated"], found["x-uc-deprecated"], found["x-uc-replaced-by"]) == (True, True, "/v2/ships")
    assert found["x-sunset"] == "2027-05-01"
    assert "Use v2." in found["description"]


def test_two_operations_may_not_share_a_name() -> None:
    one, two = api_that(act), api_that(act, path="/other")
    with pytest.raises(TypeError, match=r"two operations in harbour\.yaml are named act"):
        documents([one, two])


def test_two_structs_may_not_share_a_name() -> None:
    other = msgspec.defstruct("Ship", [("keel", str)])
    one = api_that(act, answer=Ship, example=Example(answer={"name": "x"}))
    two = api_that(act, path="/keels", operation="keels", answer=other, example=Example(answer={"keel": "x"}))
    with pytest.raises(TypeError, match="two different structs in one file are named Ship"):
        documents([one, two])


def test_a_route_may_be_documented_in_another_file_if_an_api_owns_that_file() -> None:
    misplaced = api_that(act, file="control.yaml")
    with pytest.raises(TypeError, match=r"no API has control\.yaml as its main file"):
        documents([misplaced])
    owner = new_api("control", "/control")
    owner.file = "control.yaml"
    owner.routes += api_that(act, path="/own", operation="own").routes
    owner.routes[0].file = "control.yaml"
    assert list(documents([misplaced, owner])["control.yaml"]["paths"]) == ["/harbour/ships", "/harbour/own"]
