"""Names: all printable characters are allowed, kept as written, and compared without case."""

from __future__ import annotations

import unicodedata

import httpx
import pytest

from tests.api.house import Console, done, refused, segment, to_catalog, to_namespace

GOOD = [
    "plain",
    "With Space",
    " leading and trailing ",
    "dots.in.it",
    ".",
    "..",
    "a/b",
    "/",
    "a\\b",
    "50%",
    "%2F",
    "a+b&c=d?e#f",
    "quote'\"`",
    "semi;colon:rename",
    "Grüße",
    "日本語",
    "عربي",
    "🚢⚓",
    "👩‍👩‍👧",
    "tab\u00a0nbsp",
    "x" * 255,
    "ü" * 255,
    "🚢" * 255,
    "null",
    "-1",
    "ß",
]


@pytest.mark.parametrize("name", GOOD)
async def test_a_name_is_returned_as_it_was_given(console: Console, name: str) -> None:
    made = await console.make(name)
    assert made["name"] == name
    assert done(await console.get(to_catalog(name))) == made
    inner = await console.make(name, name)
    deeper = await console.make(name, name, name)
    assert done(await console.get(to_namespace(name, name))) == inner
    assert done(await console.get(to_namespace(name, name, name))) == deeper
    assert await console.names("/catalogs") == [name]
    assert await console.names(f"{to_catalog(name)}/namespaces", parent=name) == [name]
    updated = done(await console.patch(to_namespace(name, name, name), {"comment": name}))
    assert (updated["name"], updated["comment"]) == (name, name)
    gone = done(await console.delete(to_catalog(name), cascade="true"))
    assert done(await console.post("/undrop", {"kind": "catalog", "id": gone["id"]}))["name"] == name


@pytest.mark.parametrize(
    ("kept", "requested"),
    [
        ("Sales", "sALES"),
        ("STRASSE", "straße"),
        ("ΣΊΣΥΦΟΣ", "σίσυφος"),
        ("Ünï", "üNÏ"),
        (unicodedata.normalize("NFC", "Zoë"), unicodedata.normalize("NFD", "zoë")),
        (unicodedata.normalize("NFD", "Zoë"), unicodedata.normalize("NFC", "ZOË")),
        ("İstanbul", "i̇stanbul"),
    ],
)
async def test_names_that_differ_only_in_case_or_composition_are_equal(
    console: Console, kept: str, requested: str
) -> None:
    made = await console.make(kept)
    assert done(await console.get(to_catalog(requested))) == made
    refused(await console.post("/catalogs", {"name": requested}), 409, "NAME_TAKEN", "name")
    assert await console.names("/catalogs") == [kept]


async def test_a_dotless_and_a_dotted_i_are_two_names(console: Console) -> None:
    first, second = await console.make("f\u0131le"), await console.make("file")
    assert first["id"] != second["id"]


BAD = [
    ("", "name"),
    ("x" * 256, "name"),
    ("🚢" * 256, "name"),
    ("a\nb", "name"),
    ("a\tb", "name"),
    ("a\x00b", "name"),
    ("a\x1fb", "name"),
    ("a\x7fb", "name"),
    ("a\x85b", "name"),
    ("\x1f", "name"),
]


@pytest.mark.parametrize(("name", "field"), BAD)
async def test_an_invalid_name_is_refused_wherever_it_is_given(console: Console, name: str, field: str) -> None:
    await console.make("lake")
    await console.make("lake", "a")
    seq = await console.seq()
    refused(await console.post("/catalogs", {"name": name}), 400, "INVALID_INPUT", field)
    bad_path = refused_field(await console.post("/catalogs/lake/namespaces", {"path": ["a", name]}))
    assert bad_path in ("path", "path[...]", "path[1]")
    refused(await console.post("/catalogs/lake:rename", {"new_name": name}), 400, "INVALID_INPUT", "new_name")
    rename_inner = await console.post(f"{to_namespace('lake', 'a')}:rename", {"new_name": name})
    refused(rename_inner, 400, "INVALID_INPUT", "new_name")
    refused(await console.patch("/catalogs/lake", {"owner": name}), 400, "INVALID_INPUT", "owner")
    assert await console.seq() == seq
    if name:
        refused(await console.get(to_catalog(name)), 400, "INVALID_INPUT", "catalog")
        refused(await console.get(f"{to_catalog(name)}/namespaces"), 400, "INVALID_INPUT", "catalog")
        refused(await console.get(f"{to_catalog(name)}/namespaces/x"), 400, "INVALID_INPUT", "catalog")
        wrong_table = f"{to_namespace('lake', 'a')}/tables/{segment(name)}"
        refused(await console.get(wrong_table), 400, "INVALID_INPUT", "table")


@pytest.mark.parametrize("levels", ["\x1f", "a\x1f", "\x1fa", "a\x1f\x1fb"])
async def test_an_empty_level_is_refused_and_named(console: Console, levels: str) -> None:
    await console.make("lake")
    refused(await console.get(f"/catalogs/lake/namespaces/{segment(levels)}"), 400, "INVALID_INPUT", "namespace")
    refused(await console.get("/catalogs/lake/namespaces", parent=levels), 400, "INVALID_INPUT", "parent")
    refused(
        await console.get("/dropped", kind="table", catalog="lake", namespace=levels), 400, "INVALID_INPUT", "namespace"
    )


def refused_field(answer: httpx.Response) -> str:
    assert answer.status_code == 400, answer.text
    return str(answer.json()["error"]["field"])
