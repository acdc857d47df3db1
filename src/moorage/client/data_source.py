"""`format("moorage")`: the Delta and Lance tables of a server in Spark, by their full name. No jar is needed.

`spark.read.format("moorage").load("lake.sea.boats")` and `df.write.format("moorage").save("lake.sea.boats")`. Spark
finds it by the package `pyspark_moorage`, so that it needs no registration.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import CaseInsensitiveDict, DataSource
from pyspark.sql.types import StructType

from moorage.client import Client, ClientError
from moorage.client.delta.tables import split_name

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceReader, DataSourceStreamArrowWriter

    from moorage.client.delta.spark import DeltaOptions

URL: Final = "MOORAGE_URL"
TOKEN: Final = "MOORAGE_TOKEN"  # noqa: S105  the name of a variable
DELTA, ICEBERG, LANCE = "delta", "iceberg", "lance"
_STORAGE: Final = "storage."
_OF_DELTA: Final = ("partitionBy", "expectedVersion")
"""Without effect on a Lance table, so they are refused there."""


class MoorageSource(DataSource):
    """Delegates to the reader or writer of the table's format."""

    default_url: str | None = None
    default_token: str | None = None

    @classmethod
    def name(cls) -> str:
        return "moorage"

    def schema(self) -> StructType:
        if self._format() == LANCE:
            return self._lance().schema()
        from moorage.client.delta.refusal import require_readable
        from moorage.client.delta.spark import schema_of

        selected = self._delta()
        with selected.tables() as tables:
            state = tables.state(selected.table, version=selected.version, timestamp_ms=selected.timestamp_ms, files=0)
        require_readable(state.protocol.reader_features, state.configuration)
        return schema_of(state)

    def reader(self, schema: StructType) -> DataSourceReader:
        if self._format() == LANCE:
            return self._lance().reader(schema)
        from moorage.client.delta.spark import DeltaReader

        return DeltaReader(self._delta(), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001  Spark's signature
        if self._format() == LANCE:
            return self._lance().writer(schema, overwrite)
        from moorage.client.delta.spark import DeltaWriter

        return DeltaWriter(self._delta(), schema, overwrite=overwrite)

    def streamWriter(  # noqa: N802  Spark's name
        self,
        schema: StructType,
        overwrite: bool,  # noqa: FBT001
    ) -> DataSourceStreamArrowWriter:
        if self._format() == LANCE:
            return self._lance().streamWriter(schema, overwrite)
        from moorage.client.delta.spark import DeltaStreamWriter

        return DeltaStreamWriter(self._delta(), schema, overwrite=overwrite)

    # --- options ---------------------------------------------------------------------------------------------------

    @property
    def _url(self) -> str:
        url = self.options.get("url") or self.default_url or os.environ.get(URL)
        if not url:
            raise ValueError("format('moorage') requires option('url', 'http://…'), or MOORAGE_URL in the environment")
        return url

    @property
    def _table(self) -> str:
        table = self.options.get("path") or self.options.get("table")
        if not table:
            raise ValueError("format('moorage') requires a table: load('catalog.schema.table')")
        return str(table)

    @property
    def _token(self) -> str | None:
        return self.options.get("token") or self.default_token or os.environ.get(TOKEN)

    def _format(self) -> str:
        """The format of the table, or the one that the caller wants for a new table."""
        catalog, schema, table = split_name(self._table)
        wanted = self.options.get("tableFormat", "").lower()
        with Client(self._url, token=self._token) as client:
            try:
                found = client.namespaces.table(catalog, [schema], table).format
            except ClientError as error:
                if error.code != "TABLE_NOT_FOUND":
                    raise
                found = None
        if found is not None and wanted and found != wanted:
            raise ValueError(f"'{self._table}' is a {found} table, not a {wanted} table")
        kind = found or wanted or DELTA
        if kind == ICEBERG:
            raise ValueError(
                f"'{self._table}' is an Iceberg table: use its name in SQL, spark.table and writeTo, "
                "in a session of moorage.client.spark.session"
            )
        if kind not in (DELTA, LANCE):
            raise ValueError(f"format('moorage') offers Delta and Lance tables; '{self._table}' is {kind}")
        return kind

    def _lance(self) -> Any:
        from moorage.client.lance.lake import DELIMITER
        from moorage.client.lance.spark import LanceSource

        for name in _OF_DELTA:
            if name in self.options:
                raise ValueError(f"option {name!r} is for Delta tables; '{self._table}' is a Lance table")
        options = {key: value for key, value in self.options.items() if key not in ("path", "table", "url")}
        version, timestamp_ms = options.pop("versionasof", None), _timestamp(self.options)
        if timestamp_ms is not None:
            if version is not None:
                raise ValueError("option 'versionAsOf' cannot be combined with 'timestampAsOf'")
            version = str(self._lance_version_at(timestamp_ms))
        named = {
            "uri": self._url,
            **({"token": self._token} if self._token else {}),
            "path": DELIMITER.join(split_name(self._table)),
        }
        return LanceSource(
            CaseInsensitiveDict({**options, **named, **({} if version is None else {"version": version})})
        )

    def _lance_version_at(self, timestamp_ms: int) -> int:
        from moorage.client.lance import Lake
        from moorage.client.lance.versions import version_at

        return version_at(Lake.with_token(self._url, self._token), split_name(self._table), timestamp_ms)

    def _delta(self) -> DeltaOptions:
        from moorage.client.delta.spark import DeltaOptions

        options = self.options
        return DeltaOptions(
            url=self._url,
            table=self._table,
            token=self._token,
            version=_number(options, "versionAsOf"),
            timestamp_ms=_timestamp(options),
            partition_by=tuple(name.strip() for name in options.get("partitionBy", "").split(",") if name.strip()),
            merge_schema=options.get("mergeSchema", "").lower() == "true",
            overwrite_schema=options.get("overwriteSchema", "").lower() == "true",
            expected_version=_number(options, "expectedVersion"),
            app_id=options.get("txnAppId"),
            app_version=_number(options, "txnVersion"),
            checkpoint=options.get("checkpointLocation"),
            comment=options.get("comment"),
            storage={name[len(_STORAGE) :]: value for name, value in options.items() if name.startswith(_STORAGE)},
        )


def source_for(url: str, token: str | None = None) -> type[MoorageSource]:
    """The source of a session: it uses this server for queries that name none."""
    return type("MoorageSource", (MoorageSource,), {"default_url": url, "default_token": token})


def _number(options: Any, name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"option {name!r} must be a whole number, not {text!r}")
    return int(text)


def _timestamp(options: Any) -> int | None:
    text = options.get("timestampAsOf")
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"option 'timestampAsOf' must be a time such as 2026-11-16T12:00:00, not {text!r}") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
