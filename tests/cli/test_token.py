"""`moorage token`: what an operator does with a token that was found."""

from __future__ import annotations

from pathlib import Path

import httpx

from moorage.core.tokens import parse_token
from moorage.testing.server import ServerProcess
from tests.api.test_guarded_servers import CATALOGS, ask, token_in
from tests.cli.conftest import Moorage


def test_a_token_that_was_found_is_revoked_by_its_text_which_is_not_sent(tmp_path: Path, moorage: Moorage) -> None:
    with ServerProcess(tmp_path / "data", flags=["--auth", "on"]) as server:
        admin = token_in(server.output())
        own = {"MOORAGE_URL": server.url, "MOORAGE_TOKEN": admin}
        assert moorage("user", "create", "ann", **own).returncode == 0
        found = moorage("token", "create", "--for", "ann", **own).stdout.strip()
        token = parse_token(found)
        assert token is not None
        assert ask(server.url, found, "GET", CATALOGS).status_code == httpx.codes.OK
        assert moorage("token", "revoke", found, **own).stdout == f"revoked {token.id}\n"
        assert ask(server.url, found, "GET", CATALOGS).status_code == httpx.codes.UNAUTHORIZED
        assert found not in server.words()
        again = moorage("token", "revoke", found, **own)
        assert (again.returncode, again.stderr) == (1, f"moorage: no token has the id '{token.id}'\n")
