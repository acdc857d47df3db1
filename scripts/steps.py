"""How a set-up step runs a program, says what it does, and remembers that it is done."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".tools"


class StepFailed(Exception):
    """One line for a person: what is missing or broke, and what to do."""


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def run(*command: str | Path, cwd: Path = ROOT, env: Mapping[str, str] | None = None) -> None:
    """Run quietly; only a failure shows what the program said."""
    outcome = subprocess.run(
        command, cwd=cwd, env=env, text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if outcome.returncode != 0:
        say(outcome.stdout.rstrip())
        words = " ".join(str(part) for part in command)
        raise StepFailed(f"this failed, see its words above: {words}")


def digest(*parts: str | Path) -> str:
    """One name for the state of some files and texts."""
    whole = hashlib.sha256()
    for part in parts:
        content = part.read_bytes() if isinstance(part, Path) else part.encode()
        whole.update(len(content).to_bytes(8, "big") + content)
    return whole.hexdigest()


class Stamp:
    """A step is done while the stamp it left says the same as its inputs do."""

    def __init__(self, path: Path, *inputs: str | Path) -> None:
        self.path = path
        self.wanted = digest(*inputs)

    def is_current(self) -> bool:
        return self.path.is_file() and self.path.read_text() == self.wanted

    def leave(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(self.wanted)
