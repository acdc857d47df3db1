"""Start victims, and inspect what they left behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from moorage.ledger.port import Ledger
from moorage.ledger.postgres import PostgresLedger
from moorage.ledger.sqlite import SqliteLedger

VICTIM = str(Path(__file__).with_name("victim.py"))
KILLED = -signal.SIGKILL
SOAK = os.environ.get("MOORAGE_SOAK") == "1"


def run_victim(
    verb: str, address: str, *, stdin: object = None, die_at: str = ""
) -> subprocess.CompletedProcess[bytes]:
    """Run until exit, or until a kill at a named step (`append.applied:2`: when it is reached the second time)."""
    return subprocess.run(
        [sys.executable, VICTIM, verb, address],
        input=msgspec.json.encode(stdin),
        env={**os.environ, "MOORAGE_DIE_AT": die_at},
        capture_output=True,
        check=False,
        timeout=60,
    )


def start_victim(verb: str, address: str, *, stdin: object) -> subprocess.Popen[bytes]:
    child = subprocess.Popen([sys.executable, VICTIM, verb, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    child.stdin.write(msgspec.json.encode(stdin))
    child.stdin.close()
    return child


async def open_ledger_at(address: str) -> Ledger:
    return await (PostgresLedger.open(address) if "://" in address else SqliteLedger.open(Path(address)))


async def require_gapless(ledger: Ledger, known: Sequence[tuple[str, int]] = ()) -> int:
    """Require numbers without gaps, and the known drafts under their numbers. Return the last number."""
    drafts: list[str] = []
    while page := await ledger.entries(len(drafts), limit=1000):
        assert [entry.seq for entry in page] == list(range(len(drafts) + 1, len(drafts) + 1 + len(page)))
        drafts += [entry.draft for entry in page]
    assert len(set(drafts)) == len(drafts)
    for draft, seq in known:
        assert drafts[seq - 1] == draft
    return len(drafts)
