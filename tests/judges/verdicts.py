"""What the judges found, as a table, and compared with the table in docs/clients/index.md."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.judges.steps import CAPABILITIES

PAGE = Path(__file__).parents[2] / "docs" / "clients" / "index.md"
PLACES = ("local disk", "S3 with own key", "S3 with vended credentials")
COLUMNS = (*(name.replace("_", " ") for name in CAPABILITIES), *PLACES[1:])
WORDS = {"ok": "yes", "-": "–"}
"""How the page writes an outcome. Every other outcome is a reason, which the page writes as `no`."""


@dataclass(frozen=True)
class Verdict:
    """The outcomes of one client: for each place, those of each capability."""

    client: str
    outcomes: Mapping[str, Mapping[str, str]]

    def cells(self) -> list[str]:
        """Return the row of the table: the capabilities on local disk, then both ways to use an object store."""
        local = [self.outcomes["local disk"][name] for name in CAPABILITIES]
        return [mark(each) for each in (*local, *(self.summary(place) for place in PLACES[1:]))]

    def summary(self, place: str) -> str:
        """Return `ok` if all capabilities that the client offers work at this place, or the first reason."""
        if place not in self.outcomes:
            return "-"
        offered = [outcome for outcome in self.outcomes[place].values() if outcome != "-"]
        return next((outcome for outcome in offered if outcome != "ok"), "ok")

    def reasons(self) -> Iterator[str]:
        """For each place what fails there, with the first reason. The others often follow from it."""
        for place, outcomes in self.outcomes.items():
            failed = [name for name, outcome in outcomes.items() if mark(outcome) == "fails"]
            if failed:
                names = ", ".join(name.replace("_", " ") for name in failed)
                yield f"{self.client}, {place}: fails {names}. {outcomes[failed[0]]}"


def mark(outcome: str) -> str:
    return outcome if outcome in WORDS else "fails"


def table_of(verdicts: list[Verdict]) -> str:
    rows = [["client", *COLUMNS], *([verdict.client, *verdict.cells()] for verdict in verdicts)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def documented() -> dict[str, list[str]]:
    """Return the rows of the table on the page, by client, without links."""
    rows = [
        line.strip("|").split("|") for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")
    ]
    cells = [[re.sub(r"\[(.*?)\]\(.*?\)", r"\1", cell).strip() for cell in row] for row in rows]
    heads = [row for row in cells if row[1:] == list(COLUMNS)]
    assert heads, f"{PAGE.name} has no table with the columns {', '.join(COLUMNS)}"
    return {row[0]: row[1:] for row in cells if len(row) == len(heads[0]) and set(row[1:]) <= {"yes", "no", "–"}}


def contradictions(verdicts: list[Verdict]) -> list[str]:
    """Return what the page says differently."""
    page = documented()
    found = []
    for verdict in verdicts:
        for column, said, cell in zip(COLUMNS, page[verdict.client], verdict.cells(), strict=True):
            word = WORDS.get(cell, "no")
            if said != word:
                found.append(f"{verdict.client}, {column}: the page says {said}, the judge {word}")
    return found
