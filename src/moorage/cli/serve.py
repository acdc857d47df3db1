"""`moorage serve`: runs a catalog in the foreground until SIGTERM or Ctrl-C.

Prints only errors, and with the first start that has authentication the token of the administrator.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from moorage.cli import arguments
from moorage.cli.failure import USAGE, Failure
from moorage.core.principals import ADMIN

if TYPE_CHECKING:
    from moorage.server.settings import Settings


def run(argv: list[str]) -> int:
    settings = read_settings(argv, "serve", "Run a catalog in the foreground. It is ready when /readyz returns 200.")
    serve(settings, announce=_announce, show_token=show_token)
    return 0


def show_token(token: str) -> None:
    """Print the administrator's token. It is stored nowhere, so this is the only time that it can be read."""
    print(
        f"Authentication is on. The token of the administrator `{ADMIN}` is shown only now:\n\n  {token}\n\n"
        "Log in with it in a browser, or set MOORAGE_TOKEN to it for the commands of `moorage`. `moorage admin reset` "
        "makes another one.",
        flush=True,
    )


def _announce(url: str) -> None:
    if sys.stdout.isatty():
        print(f"Moorage is running at {url}", flush=True)


def read_settings(argv: list[str], verb: str, description: str) -> Settings:
    """Read the settings from flags, environment and file. Every setting has a flag."""
    from moorage.server.settings import SettingsError, load, options

    parser = arguments.parser(verb, description)
    parser.add_argument("--config", type=Path, metavar="FILE", help="a TOML file with settings (MOORAGE_CONFIG)")
    for option in options():
        shown = "" if option.default is None else f"; default {option.default}"
        parser.add_argument(
            option.flag, dest=option.name, metavar="…", help=f"{option.description} ({option.variable}{shown})"
        )
    given = vars(parser.parse_args(argv))
    config = given.pop("config")
    try:
        return load(flags=given, environ=os.environ, config=config)
    except SettingsError as error:
        raise Failure(str(error), code=USAGE) from None


def serve(
    settings: Settings,
    *,
    announce: Callable[[str], None],
    show_token: Callable[[str], None] = lambda token: None,
    before_stop: Callable[[], None] = lambda: None,
) -> None:
    """Run until SIGTERM or SIGINT. Raises Failure with a one-line message."""
    import uvloop

    from moorage.server.compose import serve as serve_catalog
    from moorage.server.serve import ListenError
    from moorage.server.settings import SettingsError

    try:
        uvloop.run(serve_catalog(settings, announce=announce, show_token=show_token, before_stop=before_stop))
    except SettingsError as error:
        raise Failure(str(error), code=USAGE) from None
    except ListenError as error:
        raise Failure(str(error)) from None
