"""Writes the files under openapi/ from the routes, and stores the files of a release.

python -m scripts.openapi write     # after any change of a route or a wire struct
python -m scripts.openapi release   # store the current files as the release that later files must not break
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import yaml

from moorage.http.openapi import documents
from moorage.server.compose import APIS

FOLDER = Path(__file__).resolve().parent.parent / "openapi"
RELEASED = FOLDER / "released"

_HEADER = "# Written from the routes by `make openapi`. Do not edit.\n"


class _ReadableDumper(yaml.SafeDumper):
    """Indents lists, keeps long texts readable, and writes no YAML aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: FBT001, FBT002
        super().increase_indent(flow, False)  # noqa: FBT003


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_ReadableDumper.add_representer(str, _text)


def rendered() -> dict[str, str]:
    """Returns the text of each file, by name. The same routes always give the same text."""
    return {
        file: _HEADER + yaml.dump(document, Dumper=_ReadableDumper, sort_keys=False, allow_unicode=True, width=100)
        for file, document in documents(APIS).items()
    }


def write(folder: Path = FOLDER) -> None:
    texts = rendered()
    for old in folder.glob("*.yaml"):
        if old.name not in texts and old.read_text(encoding="utf-8").startswith(_HEADER):
            old.unlink()
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")


def release() -> None:
    RELEASED.mkdir(exist_ok=True)
    for file in rendered():
        shutil.copyfile(FOLDER / file, RELEASED / file)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write"]:
            write()
        case ["release"]:
            write()
            release()
        case _:
            sys.exit(__doc__)
