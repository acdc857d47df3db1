"""The addresses for each kind of client, with a first program."""

from __future__ import annotations

from typing import Final, NamedTuple

from moorage.api.web.markup import Markup, joined, markup


class Client(NamedTuple):
    """A kind of client. `{url}` is the address of this server, `{token}` the argument with a token."""

    title: str
    path: str
    about: str
    program: str
    argument: str = ""


_CLIENTS: Final = (
    Client(
        "Iceberg",
        "/iceberg",
        "PyIceberg, Spark, DuckDB, Polars and other clients of Iceberg's REST API.",
        """from pyiceberg.catalog import load_catalog

catalog = load_catalog(
    "lake",
    type="rest",
    uri="{address}",
    warehouse="my_catalog",{token}
)""",
        '\n    token="moor_…",',
    ),
    Client(
        "Unity Catalog and Delta",
        "/api/2.1/unity-catalog",
        "Clients of Unity Catalog, and Delta tables in Spark through Moorage's session.",
        """from moorage.client.spark import session

spark = session(
    "{url}",{token}
)
table = "my_catalog.schema.table"
spark.read.format("moorage").load(table)""",
        '\n    token="moor_…",',
    ),
    Client(
        "Lance",
        "/lance",
        "pylance, LanceDB and other clients of the Lance namespace.",
        """import lancedb

settings = {{
    "uri": "{address}",{token}
}}
db = lancedb.connect_namespace("rest", settings)""",
        '\n    "header.x-api-key": "moor_…",',
    ),
    Client(
        "Delta Sharing",
        "/delta-sharing",
        "Recipients of a share. They have no account here: each gets a profile file with its own token.",
        """import delta_sharing

table = "config.share#share.schema.table"
delta_sharing.load_as_pandas(table)""",
    ),
)

_CARD: Final = """<section class="card" aria-label="{title}">
<h3>{title}</h3>
<p class="soft">{about}</p>
<code class="address">{address}</code>
<pre><code>{program}</code></pre>
</section>
"""


def addresses(url: str, *, with_token: bool) -> Markup:
    """A card for each kind of client."""
    return joined(
        markup(
            _CARD,
            title=client.title,
            about=client.about,
            address=url + client.path,
            program=client.program.format(
                address=url + client.path, url=url, token=client.argument if with_token else ""
            ),
        )
        for client in _CLIENTS
    )
