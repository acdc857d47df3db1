"""The identity of a Spark stream, by which a table recognises a batch that it has already."""

from __future__ import annotations

import json
import re
from urllib.parse import urlsplit

from pyarrow import fs


def query_id(checkpoint: str) -> str:
    """The id of the stream. Spark does not pass it to a data source, but keeps it in the checkpoint folder."""
    if urlsplit(checkpoint).scheme in ("", "file"):  # Hadoop decodes nothing in it: %20 and # are parts of names
        system, path = fs.LocalFileSystem(), re.sub("^file:(//)?", "", checkpoint)
    else:
        system, path = fs.FileSystem.from_uri(checkpoint)
    with system.open_input_file(f"{path.rstrip('/')}/metadata") as source:
        return str(json.loads(source.read())["id"])
