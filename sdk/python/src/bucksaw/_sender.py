"""Sends batches in order until nodes acknowledge them: the work of the background thread."""

import math
import random
import time
import zlib
from typing import Final

from bucksaw._buffer import Batch, Buffer
from bucksaw._connection import Access, Connection
from bucksaw._outcomes import Acknowledged, Denied, Refused, Retry, outcome, pause
from bucksaw._reports import Failure, Reporter
from bucksaw._settings import Endpoint, Settings
from bucksaw._tls import describe_failure

#: Bodies of at least this length are compressed.
COMPRESSED_BYTES_MIN: Final = 1024
#: Compression level: text of logs shrinks well at the lowest one, and the program needs its cores.
COMPRESSION_LEVEL: Final = 1
#: Nodes recognise keys for seven days.
KEY_AGE_MAX_MS: Final = 6 * 24 * 60 * 60 * 1000


class Sender:
    """One run of the background thread. Owns the connection to the current node."""

    def __init__(
        self, settings: Settings, access: Access, buffer: Buffer, reporter: Reporter, deadline: float = math.inf
    ) -> None:
        """Makes a sender that sends nothing after `deadline`, a time of `time.monotonic`."""
        self._settings = settings
        self._access = access
        self._buffer = buffer
        self._reporter = reporter
        self._targets = [(endpoint, settings.ingest_target(endpoint)) for endpoint in settings.endpoints]
        self._current = 0
        self._connection: Connection | None = None
        self._aborted = False
        self._deadline = deadline

    def run(self) -> None:
        """Sends batches until the buffer is stopped. With a deadline, until it has none that is due."""
        wait = self._deadline == math.inf
        try:
            while self._left() > 0 and (batch := self._buffer.next_batch(self.report, wait)) is not None:
                self._deliver(batch)
        finally:
            self._disconnect()

    def abort(self) -> None:
        """Ends the current attempt. Called by another thread, after the buffer was stopped."""
        self._aborted = True
        connection = self._connection
        if connection is not None:
            connection.abort()

    def report(self) -> None:
        """Reports the records that were dropped since the last call."""
        for failure in self._buffer.take_failures(now=False):
            self._reporter.report(failure)

    def _deliver(self, batch: Batch) -> None:
        body, headers = _request(batch)
        attempt = 0
        #: Failed attempts, of those since the client began to close.
        failures = 0
        was_closing = self._buffer.is_closing()
        while self._buffer.is_current(batch) and self._left() > 0:
            if time.time_ns() // 1_000_000 - batch.key_unix_ms > KEY_AGE_MAX_MS:
                self._reporter.report(Failure("too_old", "no node accepted the batch for six days", batch.records))
                self._buffer.finish(batch, dropped="too_old")
                return
            if attempt > 0:
                self._buffer.count_retry()
            endpoint, target = self._targets[self._current]
            result = self._attempt(endpoint, target, body, headers)
            if not self._buffer.is_current(batch):
                # Closed meanwhile: the records are counted as dropped, and the failure is that of `abort`.
                return
            match result:
                case Acknowledged(_, rejected, errors):
                    rejected = min(rejected, batch.records)
                    if rejected:
                        reason = errors or "no reason given"
                        self._reporter.report(Failure("rejected", f"{endpoint}: {reason}", rejected))
                    self._buffer.finish(batch, rejected=rejected)
                case Refused(error):
                    # Reported first, so that a flush ends after the report.
                    self._reporter.report(Failure("refused", f"{endpoint}: {error}", batch.records))
                    self._buffer.finish(batch, dropped="refused")
                case Retry(reason, retry_after) | Denied(reason, retry_after):
                    attempt += 1
                    self._current = (self._current + 1) % len(self._targets)
                    denied = isinstance(result, Denied)
                    if denied:
                        self._buffer.count_denied()
                    message = f"{endpoint}: {reason}{self._access.problems()}"
                    self._reporter.report(Failure("denied" if denied else "retry", message, batch.records))
                    failures += 1
                    if self._buffer.is_closing():
                        # The time is short, so the pauses begin anew with the shortest one.
                        failures = failures if was_closing else 1
                        was_closing = True
                        retry_after = 0
                    seconds = min(pause(failures, random.random(), retry_after), self._left())
                    self._buffer.pause(seconds, not was_closing, self.report)
            self.report()

    def _attempt(
        self, endpoint: Endpoint, target: str, body: bytes, headers: dict[str, str]
    ) -> Acknowledged | Retry | Denied | Refused:
        try:
            connection = self._connect(endpoint)
            connection.limit(min(self._settings.request_time, self._left()), None)
            answer = connection.post(target, body, headers)
        except Exception as error:
            # Whatever it is, the thread and the batch survive it.
            self._disconnect()
            return Retry(describe_failure(error), 0)
        return outcome(*answer)

    def _connect(self, endpoint: Endpoint) -> Connection:
        connection = self._connection
        if connection is None or connection.endpoint is not endpoint or not connection.is_open():
            self._disconnect()
            connection = self._connection = Connection(endpoint, self._access)
            if self._aborted:
                connection.abort()
        return connection

    def _left(self) -> float:
        return self._deadline - time.monotonic()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def forget_connection(self) -> None:
        """Closes the descriptor of the connection in a child process, where the connection is the parent's."""
        if self._connection is not None:
            self._connection.forget()


def _request(batch: Batch) -> tuple[bytes, dict[str, str]]:
    """Returns the body and the headers of a batch, the same for all attempts."""
    headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": batch.key}
    if len(batch.data) < COMPRESSED_BYTES_MIN:
        return bytes(batch.data), headers
    # With the header and the trailer of gzip.
    compressor = zlib.compressobj(COMPRESSION_LEVEL, wbits=31)
    headers["Content-Encoding"] = "gzip"
    return compressor.compress(batch.data) + compressor.flush(), headers
