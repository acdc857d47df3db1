"""The Spark session of a worker. Starting one takes ten seconds, so a worker starts one and keeps it."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from moorage.client.spark import SparkSettings, SparkUnavailable, discard_session, is_alive, start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


class WarmSession:
    """One session per worker, started when the first program asks for it, or earlier in the background."""

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._session: SparkSession | None = None

    @property
    def is_remote(self) -> bool:
        """Whether Spark runs elsewhere, so that this machine needs no Java."""
        return self._settings.remote is not None

    def get(self) -> SparkSession:
        """The session. The first call starts it, and another one if Spark has ended; calls during the start wait."""
        with self._lock:
            if self._session is not None and not is_alive(self._session, self._settings):
                # Without this, one JVM that the system killed for its memory would fail every later job of the worker.
                log.warning("Spark has ended; starting it again")
                discard_session(self._session, self._settings)
                self._session = None
            if self._session is None:
                self._session = start_session(self._settings)
            return self._session

    def warm_up(self) -> threading.Thread:
        """Start the session in the background, so that the first job need not wait for it."""
        thread = threading.Thread(target=self._try, name="spark-start", daemon=True)
        thread.start()
        return thread

    def stop(self) -> None:
        """Stop the session, if it was started. One that is still starting ends with this process."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            if self._session is not None:
                self._session.stop()
                self._session = None
        finally:
            self._lock.release()

    def _try(self) -> None:
        try:
            self.get()
        except SparkUnavailable as error:
            log.warning("Spark did not start: %s", error)
        except Exception as error:  # noqa: BLE001 - the first job tries again, and reports the error
            log.warning("Spark did not start: %s: %s", type(error).__name__, error)
