"""Source and documentation name the actor and use the term of the field (STYLE, Language)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[2]
BANNED = re.compile(r"\b([Ww]hoever|[Ss]omebody|[Nn]obody|[Aa]nybody|[Bb]elieve[sd]?|sayable|untold)\b")
FILES = sorted(
    [
        *(HOUSE / "src").rglob("*.py"),
        *(HOUSE / "src").rglob("*.sql"),
        *(HOUSE / "docs").rglob("*.md"),
        *(HOUSE / "openapi").glob("*.yaml"),
        *HOUSE.glob("*.md"),
    ]
)


@pytest.mark.parametrize("line", ["# Whoever asks is told", '"""Nobody waits."""', "the server believes the client"])
def test_the_words_are_found(line: str) -> None:
    assert BANNED.search(line)


def test_no_sentence_hides_its_actor() -> None:
    found = [
        f"{path.relative_to(HOUSE)}:{number}: {line.strip()}"
        for path in FILES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if BANNED.search(line) and "getpwnam" not in line  # the name of a Unix user
    ]
    assert found == []
