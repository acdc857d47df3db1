"""Parts of a set-up step: run a program, print progress, and record that the step is done."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".tools"


class StepFailed(Exception):
    """One line for the user: what is missing or failed, and what to do."""


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def run(*command: str | Path, cwd: Path = ROOT, env: Mapping[str, str] | None = None) -> None:
    """Runs a program, and prints its output only if it fails."""
    outcome = subprocess.run(
        command, cwd=cwd, env=env, text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if outcome.returncode != 0:
        say(outcome.stdout.rstrip())
        line = " ".join(str(part) for part in command)
        raise StepFailed(f"this command failed, see its output above: {line}")


def digest(*parts: str | Path) -> str:
    """Returns one digest for the content of files and texts."""
    whole = hashlib.sha256()
    for part in parts:
        content = part.read_bytes() if isinstance(part, Path) else part.encode()
        whole.update(len(content).to_bytes(8, "big") + content)
    return whole.hexdigest()


class Stamp:
    """A file that records the digest of a step's inputs. The step is done while the digest is current."""

    def __init__(self, path: Path, *inputs: str | Path) -> None:
        self.path = path
        self.wanted = digest(*inputs)

    def is_current(self) -> bool:
        return self.path.is_file() and self.path.read_text() == self.wanted

    def leave(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(self.wanted)
