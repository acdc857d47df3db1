"""Errors of pylance, quoted verbatim, and the errors that callers get for them."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.core.errors import (
    Damaged,
    InvalidInput,
    MoorageError,
    NameTaken,
    OutcomeUnknown,
    RequirementFailed,
    SecurableNotFound,
    Unavailable,
    VersionNotFound,
    VersionTaken,
)
from moorage.datasets.errors import plain_message, to_moorage_error
from moorage.datasets.job_table import Namespace
from moorage.datasets.messages import Question
from moorage.processes.messages import Done

BUILDER = "/hom" + "e/runner/wor" + "k"
"""The path where pylance was built, as in its errors; split, so that this file names no path of a real machine."""
AT = f", {BUILDER}/lance/lance/rust/lance/src/dataset/scanner.rs:839:33"


def namespace() -> Namespace:
    def ask(_: Question) -> Done:
        return Done(None)

    return Namespace("file:///t", ask)


ERRORS = [
    (f"Invalid user input: Schema error: No field named nope. Valid fields are a.{AT}", SecurableNotFound, "column"),
    (f'Invalid user input: Column "zzz" does not exist in the dataset{AT}', SecurableNotFound, "column"),
    ("'zz not found in schema'", SecurableNotFound, "column"),
    (f"LanceError(Index): Index name 'ai' already exists, please specify{AT}", NameTaken, "index"),
    (f"Lance index not found: name=nope{AT}", SecurableNotFound, "index"),
    (f"Dataset already exists: file:///lake/t{AT}", RequirementFailed, None),
    ("Append with different schema: `a` should have type int64 but type was string", InvalidInput, "schema"),
    (f"Invalid user input: Error parsing statement: SELECT 1 FROM t WHERE a >>> 4{AT}", InvalidInput, None),
    (f"Retryable commit conflict for version 9: This transaction was preempted{AT}", VersionTaken, None),
    (f"Incompatible transaction: This Update transaction is incompatible{AT}", VersionTaken, None),
    (f"Wrapped error: Commit result for version 3 is unknown: it may or may not{AT}", OutcomeUnknown, None),
    (f"LanceError(IO): No space left on device (os error 28){AT}", Unavailable, None),
    (f"LanceError(IO): Execution error: Disk quota exceeded (os error 122){AT}", Unavailable, None),
]


def test_the_error_for_an_unreachable_store_does_not_contain_its_address() -> None:
    message = OSError(
        f"Invalid user input: Generic S3 error: Error performing HEAD http://10.0.0.1:9000/lake/t in 5s{AT}"
    )
    before = to_moorage_error(message, namespace())
    assert type(before) is Unavailable
    assert "10.0.0.1" not in before.message
    here = namespace()
    here.create_table_version({"version": 2, "manifest_path": "t/_versions/2"})
    assert type(to_moorage_error(message, here)) is OutcomeUnknown


@pytest.mark.parametrize(("message", "kind", "about"), ERRORS)
def test_each_error_of_pylance_has_its_type_and_kind(message: str, kind: type[MoorageError], about: str | None) -> None:
    refusal = to_moorage_error(OSError(message), namespace())
    assert type(refusal) is kind
    assert refusal.details.get("kind") == about
    assert BUILDER not in refusal.message
    assert ".rs:" not in refusal.message


@pytest.mark.parametrize(
    "message",
    [
        "External error: LanceError(IO): Generic N/A error: Not found: /lake/t/data/110101.lance",
        "Dataset at path lake/t/_versions/9.manifest was not found: Not found: lake/t/_versions/9.manifest",
        "External error: LanceError(IO): Generic memory error: Invalid range 0..634 for object of size 7 bytes",
        "Invalid argument error: does not have sufficient data, len: 7, bytes: b",
    ],
)
def test_a_missing_or_damaged_file_is_not_the_callers_error(message: str) -> None:
    for error in (OSError(message + AT), ValueError(message + AT)):
        refusal = to_moorage_error(error, namespace())
        assert type(refusal) is Damaged
        assert ".rs:" not in refusal.message


def test_an_error_with_a_very_long_message_is_recognised() -> None:
    message = f"LanceError(Schema): Field '{'x' * 70_000}' not found.\nAvailable fields: ['id']{AT}"
    assert type(to_moorage_error(OSError(message), namespace())) is SecurableNotFound
    assert (
        type(to_moorage_error(OSError(message.removeprefix("LanceError(Schema): ")), namespace())) is SecurableNotFound
    )


def test_a_value_that_pylance_rejects_is_the_callers_error() -> None:
    refusal = to_moorage_error(ValueError("num_sub_vectors are required for IVF_PQ"), namespace())
    assert type(refusal) is InvalidInput


def test_an_unknown_error_is_not_translated() -> None:
    assert to_moorage_error(OSError("LanceError(IO): the disk is on fire"), namespace()) is None
    assert to_moorage_error(RuntimeError("something else"), namespace()) is None


def test_an_error_of_the_catalog_takes_precedence() -> None:
    here = namespace()
    here.failure = VersionNotFound("there is no version 7")
    assert to_moorage_error(OSError("LanceError(IO): Python error in describe_table_version: x"), here) is here.failure
    assert type(to_moorage_error(ValueError("something else"), here)) is InvalidInput
    here.refusal = VersionTaken("too late")
    assert to_moorage_error(ValueError("whatever"), here) is here.refusal


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        (f"Invalid user input: Invalid user input: No updates provided{AT}{AT}", "No updates provided"),
        ("'zz not found in schema'", "zz not found in schema"),
        ("first line\nsecond line", "first line"),
        ("", "the request was refused"),
        ("x" * 1000, "x" * 600 + "…"),
    ],
)
def test_messages_of_pylance_are_shortened(text: str, plain: Any) -> None:
    assert plain_message(text) == plain
