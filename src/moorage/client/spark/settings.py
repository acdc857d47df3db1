"""Where Spark runs, and its configuration, from flags and the environment."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Self

import msgspec

from moorage.client.spark.failure import SparkUnavailable

MASTER: Final = "MOORAGE_SPARK_MASTER"
REMOTE: Final = "MOORAGE_SPARK_REMOTE"
CONF: Final = "MOORAGE_SPARK_CONF"
JARS: Final = "MOORAGE_SPARK_JARS"
URL_SETTING: Final = "spark.moorage.url"
TOKEN_SETTING: Final = "spark.moorage.token"  # noqa: S105  the name of a setting
"""In these settings a session holds its server."""
IVY_SETTINGS: Final = "MOORAGE_SPARK_IVY_SETTINGS"


class SparkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where a session runs. `remote` is the address of a Spark Connect server, and then `master` is not used."""

    master: str = "local[*]"
    remote: str | None = None
    app_name: str = "moorage"
    conf: dict[str, str] = {}
    """Added last, so it overrides every setting of ours."""
    jars: Path | None = None
    """A folder of jars to use instead of the cache."""
    ivy_settings: Path | None = None
    """Ivy settings to resolve the jars with, for networks that have a mirror of Maven Central."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """The settings of the variables MOORAGE_SPARK_MASTER, _REMOTE, _CONF (a file), _JARS and _IVY_SETTINGS."""
        conf, jars, ivy = (environment.get(name) for name in (CONF, JARS, IVY_SETTINGS))
        return cls(
            master=environment.get(MASTER) or "local[*]",
            remote=environment.get(REMOTE) or None,
            conf=read_conf(Path(conf)) if conf else {},
            jars=Path(jars) if jars else None,
            ivy_settings=Path(ivy) if ivy else None,
        )

    @property
    def is_local(self) -> bool:
        """Whether driver and executors are this process and its JVM."""
        return self.remote is None and self.master.startswith("local")


def read_conf(file: Path) -> dict[str, str]:
    """Read a file in the format of spark-defaults.conf: one setting per line, `KEY VALUE` or `KEY=VALUE`."""
    try:
        text = file.read_text()
    except OSError as error:
        raise SparkUnavailable(f"cannot read the Spark configuration '{file}': {error.strerror}") from error
    return parse_conf(line for line in map(str.strip, text.splitlines()) if line and not line.startswith("#"))


def parse_conf(settings: Iterable[str]) -> dict[str, str]:
    """Parse settings of the form `KEY=VALUE` or `KEY VALUE`."""
    return dict(map(_parse_setting, settings))


def _parse_setting(text: str) -> tuple[str, str]:
    # The key ends at the first space or '='. A value may contain both.
    end = next((index for index, letter in enumerate(text) if letter == "=" or letter.isspace()), None)
    if not end:
        raise SparkUnavailable(f"expected a Spark setting KEY=VALUE, not {text!r}")
    return text[:end], text[end + 1 :].strip()
