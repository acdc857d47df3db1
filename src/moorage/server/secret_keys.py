"""The keys that encrypt secrets: from a setting, from a file, or from the output of a command."""

from __future__ import annotations

import shlex
import subprocess

from moorage.server.settings import Settings, SettingsError
from moorage.storage.secrets import parse_keys

_COMMAND_SECONDS = 30


def read_secret_keys(settings: Settings) -> tuple[bytes, ...]:
    """The keys that encrypt secrets, the current one first. Raises SettingsError."""
    try:
        if settings.secret_key is not None:
            return parse_keys(settings.secret_key)
        if settings.secret_key_file is not None:
            return parse_keys(settings.secret_key_file.read_text(encoding="utf-8"))
        if settings.secret_key_command is not None:
            return parse_keys(_output_of(settings.secret_key_command))
    except OSError as error:
        raise SettingsError(f"the keys that encrypt secrets cannot be read: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise SettingsError(f"secret_key_command did not end within {_COMMAND_SECONDS} s") from None
    except ValueError as error:
        raise SettingsError(f"the keys that encrypt secrets are invalid: {error}") from None
    return ()


def _output_of(command: str) -> str:
    done = subprocess.run(shlex.split(command), stdout=subprocess.PIPE, timeout=_COMMAND_SECONDS, check=False)
    if done.returncode != 0:
        raise SettingsError(f"secret_key_command ended with status {done.returncode}")
    return done.stdout.decode()
