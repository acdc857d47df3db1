from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.core.errors import InvalidInput, MethodNotAllowed, RouteNotFound
from moorage.http.router import Pattern, Router, percent_decoded


def router(*routes: str) -> Router[str]:
    built: Router[str] = Router()
    for route in routes:
        verb, path = route.split()
        built.add(verb, Pattern(path), route)
    return built


def test_a_static_segment_wins_over_a_parameter() -> None:
    routes = router("GET /tables/{name}", "GET /tables/recent")
    assert routes.find("GET", b"/tables/recent") == ("GET /tables/recent", {})
    assert routes.find("GET", b"/tables/other") == ("GET /tables/{name}", {"name": "other"})


def test_a_handler_that_changes_its_parameters_does_not_affect_the_next_request() -> None:
    routes = router("GET /t/{name}")
    routes.find("GET", b"/t/a")[1]["name"] = "b"
    assert routes.find("GET", b"/t/a") == ("GET /t/{name}", {"name": "a"})


def test_a_route_that_is_added_later_replaces_a_cached_match() -> None:
    routes = router("GET /t/{name}")
    routes.find("GET", b"/t/a")
    routes.add("GET", Pattern("/t/a"), "later")
    assert routes.find("GET", b"/t/a") == ("later", {})


def test_a_path_is_found_whether_or_not_it_is_cached() -> None:
    routes = router("GET /t/{name}")
    for name in (*map(str, range(5000)), "0", "x" * 5000):
        assert routes.find("GET", f"/t/{name}".encode()) == ("GET /t/{name}", {"name": name})
    assert len(routes._cache) < 5000


def test_a_static_dead_end_falls_back_to_the_parameter() -> None:
    routes = router("GET /t/fixed/x", "GET /t/{name}/y")
    assert routes.find("GET", b"/t/fixed/y") == ("GET /t/{name}/y", {"name": "fixed"})


def test_a_static_path_with_another_verb_falls_back_to_the_parameter() -> None:
    routes = router("POST /t/fixed", "GET /t/{name}")
    assert routes.find("GET", b"/t/fixed") == ("GET /t/{name}", {"name": "fixed"})


@pytest.mark.parametrize("path", [b"/t/a.b.c:compact", b"/t/a.b.c%3Acompact", b"/t/a.b.c%3acompact"])
def test_a_custom_method_is_found_however_its_colon_is_written(path: bytes) -> None:
    routes = router("GET /t/{name}", "POST /t/{name}:compact")
    assert routes.find("POST", path) == ("POST /t/{name}:compact", {"name": "a.b.c"})


def test_a_name_that_ends_like_a_custom_method_can_still_be_read() -> None:
    routes = router("GET /t/{name}", "POST /t/{name}:compact")
    assert routes.find("GET", b"/t/a:compact") == ("GET /t/{name}", {"name": "a:compact"})


def test_an_unknown_custom_method_is_part_of_the_name() -> None:
    routes = router("GET /t/{name}", "POST /t/{name}:compact")
    assert routes.find("GET", b"/t/a:vacuum") == ("GET /t/{name}", {"name": "a:vacuum"})


def test_a_rest_parameter_matches_all_remaining_segments() -> None:
    routes = router("GET /files/{path:rest}", "GET /files/index")
    assert routes.find("GET", b"/files/a/b%2Fc/d") == ("GET /files/{path:rest}", {"path": "a/b/c/d"})
    assert routes.find("GET", b"/files/index") == ("GET /files/index", {})


def test_an_encoded_slash_does_not_split_a_name() -> None:
    assert router("GET /t/{name}/x").find("GET", b"/t/a%2Fb/x")[1] == {"name": "a/b"}


@pytest.mark.parametrize("path", [b"", b"/", b"/t", b"/t/", b"/t//x", b"/t/a/x/", b"//t/a/x", b"/T/a/x"])
def test_a_path_that_was_not_declared_is_not_found(path: bytes) -> None:
    with pytest.raises(RouteNotFound):
        router("GET /t/{name}/x").find("GET", path)


def test_a_wrong_verb_is_refused_with_the_allowed_ones() -> None:
    with pytest.raises(MethodNotAllowed) as refused:
        router("GET /t/{name}", "DELETE /t/{name}", "POST /t").find("PUT", b"/t/a")
    assert refused.value.details["allowed"] == ["DELETE", "GET"]


@pytest.mark.parametrize("segment", [b"%", b"%4", b"%g0", b"%ff", b"\xff", b"%00", b"%+1"])
def test_the_error_for_a_segment_that_is_not_text_names_its_parameter(segment: bytes) -> None:
    with pytest.raises(InvalidInput) as refused:
        router("GET /t/{name}/x").find("GET", b"/t/" + segment + b"/x")
    assert refused.value.field == "name"


def test_a_route_that_is_declared_twice_is_refused() -> None:
    with pytest.raises(TypeError, match="declared twice"):
        router("GET /t/{name}", "GET /t/{other}")


@pytest.mark.parametrize("path", ["t", "/t/", "/{a}/{a}", "/{a}:x/b", "/{a:rest}/b", "/a{b}", "/{A}", "/{a:int}"])
def test_an_invalid_pattern_is_refused(path: str) -> None:
    with pytest.raises(TypeError):
        Pattern(path)


@given(st.text(min_size=1).filter(lambda text: "\x00" not in text))
def test_every_name_survives_percent_encoding_in_a_path(name: str) -> None:
    encoded = "".join(f"%{octet:02X}" for octet in name.encode("utf-8", "surrogatepass"))
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        with pytest.raises(ValueError, match="utf-8"):
            percent_decoded(encoded)
    else:
        assert router("GET /t/{name}/x").find("GET", f"/t/{encoded}/x".encode())[1] == {"name": name}


@given(st.binary(max_size=60))
def test_a_random_path_is_found_or_refused(path: bytes) -> None:
    routes = router("GET /t/{name}/x", "POST /t/{name}:compact", "GET /f/{path:rest}")
    with contextlib.suppress(RouteNotFound, MethodNotAllowed, InvalidInput):
        routes.find("GET", b"/t/" + path)
