"""An import-linter contract that states which room (package) may import which.

import-linter's own contracts list what is forbidden; this one lists what is allowed. So a new room may import nothing
until the plan in pyproject.toml allows it, and the plan may contain a room that does not exist yet.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

PACKAGE = "moorage"
Plan = Mapping[str, frozenset[str]]


def parse_plan(lines: list[str], groups: Plan | None = None) -> Plan:
    """`"snapshots: core, ledger.port"` → the room, and what it may import besides itself; `+name` is a group."""
    plan = {}
    for line in lines:
        room, _, allowed = line.partition(":")
        names = allowed.replace(",", " ").split()
        grouped = (groups[name[1:]] for name in names if groups is not None and name.startswith("+"))
        plan[room] = frozenset(name for name in names if not name.startswith("+")).union(*grouped)
    return plan


def room_of(module: str, plan: Plan) -> str | None:
    """Returns the innermost room that contains a module. `api.*` makes every package below api a separate room."""
    parts = module.split(".")
    for depth in range(len(parts), 0, -1):
        room = ".".join(parts[:depth])
        if room in plan or (depth > 1 and ".".join([*parts[: depth - 1], "*"]) in plan):
            return room
    return None


def rights_of(room: str, plan: Plan) -> frozenset[str]:
    return plan[room] if room in plan else plan[room.rpartition(".")[0] + ".*"]


def is_inside(module: str, room: str) -> bool:
    return module == room or module.startswith(room + ".")


def offence(importer: str, imported: str, rooms: Plan, outside: Plan) -> str | None:
    """Returns what is wrong with one import, or None. Both names omit the package's own name."""
    room = room_of(importer, rooms)
    if room is None:
        return f"{importer} has no room in the plan, so it may import nothing (here: {imported})"
    if imported.startswith(":"):
        package = imported[1:]
        limited = room_of(importer, outside)
        if limited is None or package in sys.stdlib_module_names or package in outside[limited]:
            return None
        return f"{limited} may not use {package}: {importer} imports it"
    if imported == PACKAGE or room_of(imported, rooms) == room:
        return None
    if any(is_inside(imported, right) for right in rights_of(room, rooms)):
        return None
    return f"{room} may not import {imported}: {importer} does"


def imports_in(graph: ImportGraph) -> list[tuple[str, str]]:
    """Returns every import made inside the package. A colon marks an imported module from outside the package."""
    pairs = []
    for module in sorted(graph.modules):
        if not is_inside(module, PACKAGE):
            continue
        for imported in sorted(graph.find_modules_directly_imported_by(module)):
            inside = is_inside(imported, PACKAGE)
            name = imported.removeprefix(PACKAGE + ".") if inside else ":" + imported.partition(".")[0]
            pairs.append((module.removeprefix(PACKAGE + "."), name))
    return pairs


class Walls(Contract):
    """Every import in the package is one that the plan allows."""

    type_name = "walls"
    # import-linter refuses an option that has no declared field.
    groups = fields.ListField(subfield=fields.StringField(), required=False)
    rooms = fields.ListField(subfield=fields.StringField())
    outside = fields.ListField(subfield=fields.StringField())
    contract_options: dict[str, list[str]]

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: FBT001
        groups = parse_plan(self.contract_options.get("groups", []))
        rooms, outside = (parse_plan(self.contract_options[plan], groups) for plan in ("rooms", "outside"))
        found = [offence(importer, imported, rooms, outside) for importer, imported in imports_in(graph)]
        offences = [message for message in found if message]
        return ContractCheck(kept=not offences, metadata={"offences": offences})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for message in check.metadata["offences"]:
            output.print_error(message)
