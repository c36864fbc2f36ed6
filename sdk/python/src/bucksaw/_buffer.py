"""Encoded records in memory until a node acknowledges them, and the counters.

One lock guards everything here. It is never held during I/O, nor while code of the program runs on purpose.
Code of the program can run all the same: a signal handler or a finaliser may log at any bytecode, also in the
thread that holds the lock. So the lock is reentrant, and a record that arrives in the middle of a change waits
in `_deferred` until that change is complete.
"""

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import get_ident
from typing import Final

from bucksaw._keys import new_key
from bucksaw._reports import Failure, FailureKind
from bucksaw._settings import Settings

#: A node accepts a body of this length whole or not at all.
WHOLE_BODY_BYTES: Final = 1 << 20
#: Seconds between two reports of dropped records.
REPORT_INTERVAL: Final = 1.0
DROP_REASONS: Final[tuple[FailureKind, ...]] = ("full", "refused", "too_old", "too_large", "closed")

_MESSAGES: Final[dict[FailureKind, str]] = {
    "full": "the buffer is full",
    "too_large": "the attributes are longer than 1 MiB",
    "closed": "the client is closed",
}


@dataclass(frozen=True, slots=True)
class Stats:
    """Counters of a client.

    Always `logged` = `acknowledged` + `rejected` + the sum of `dropped` + `buffered_records`.
    """

    #: Records that were passed to the client.
    logged: int
    #: Records that nodes have stored.
    acknowledged: int
    #: Records that nodes have not stored although they accepted the batch.
    rejected: int
    #: Attempts after the first ones.
    retries: int
    #: Attempts that a node refused with 401 or 403: the client has no token, or one that does not suffice.
    denied: int
    #: Dropped records by reason: `full`, `refused`, `too_old`, `too_large`, `closed`.
    dropped: dict[str, int]
    #: Records that are not yet acknowledged.
    buffered_records: int
    #: Bytes of their encoded lines.
    buffered_bytes: int


class Batch:
    """Lines that are sent together."""

    __slots__ = ("data", "key", "key_unix_ms", "number", "opened", "records")

    def __init__(self, number: int) -> None:
        self.key, self.key_unix_ms = new_key()
        self.number = number
        self.data = bytearray()
        self.records = 0
        #: Time of `time.monotonic` of the first record.
        self.opened = time.monotonic()


class Buffer:
    """Batches in order: sealed ones, of which the first one is being sent, and an open one."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.RLock()
        #: The thread that is changing the state below.
        self._owner = 0
        self._deferred: deque[tuple[bytes, FailureKind | None]] = deque()
        #: Something to do for the background thread.
        self._work = threading.Condition(self._lock)
        #: Batches have been acknowledged or dropped.
        self._progress = threading.Condition(self._lock)
        self._waiting = False
        self._closing = False
        self._stopped = False
        self._open: Batch | None = None
        self._sealed: deque[Batch] = deque()
        self._batches = 0
        self._acknowledged = 0
        self._rejected = 0
        self._retries = 0
        self._denied = 0
        self._dropped: Counter[FailureKind] = Counter()
        self._unreported: Counter[FailureKind] = Counter()
        self._next_report = 0.0
        self._buffered_bytes = 0

    def after_fork(self) -> None:
        """Empties the buffer in a child process: its records are the parent's."""
        self._reset()

    # Called by any thread.

    def add(self, line: bytes, may_wait: bool) -> None:
        """Adds the line of one record, or drops and counts it."""
        thread = get_ident()
        if self._owner == thread:
            self._deferred.append((line, None))
            return
        taken = False
        try:
            # Waiting for the lock would pass it on to a thread that may not run yet. Then each call of each thread
            # waits for the next one, and many threads log at a third of the speed of one.
            while not (taken := self._lock.acquire(blocking=False)):
                time.sleep(0)
            if may_wait and self._settings.when_full == "block":
                self._wait_for_space(len(line))
            self._owner = thread
            self._add(line)
        finally:
            # Also if Ctrl-C interrupts, even right behind the acquisition.
            if taken or self._work._is_owned():  # type: ignore[attr-defined]
                self._owner = 0
                try:
                    if self._deferred:
                        self._add_deferred()
                finally:
                    self._lock.release()

    def drop(self, reason: FailureKind) -> None:
        """Counts a record that cannot become a line."""
        if self._owner == get_ident():
            self._deferred.append((b"", reason))
            return
        with self._change():
            self._drop(reason, 1)

    def stats(self) -> Stats:
        """Returns the counters, all of one moment."""
        with self._change():
            buffered = self._buffered_records()
            return Stats(
                # Not a counter of its own: an exception of a signal handler may come between two counters.
                logged=self._acknowledged + self._rejected + self._dropped.total() + buffered,
                acknowledged=self._acknowledged,
                rejected=self._rejected,
                retries=self._retries,
                denied=self._denied,
                dropped={reason: self._dropped[reason] for reason in DROP_REASONS},
                buffered_records=buffered,
                buffered_bytes=self._buffered_bytes,
            )

    def is_interrupted(self) -> bool:
        """Says whether the caller is a signal handler or finaliser in the middle of a change: it must not wait."""
        return self._owner == get_ident()

    def flush(self, timeout: float) -> bool:
        """Waits until all records so far are acknowledged or dropped. Says whether the time sufficed."""
        deadline = time.monotonic() + timeout
        with self._change():
            self._seal()
            last = self._batches
        with self._lock:
            while self._sealed and self._sealed[0].number <= last:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._progress.wait(left)
        return True

    def begin_closing(self) -> bool:
        """Drops all records from now on. Says whether this is the first call."""
        with self._change():
            first = not self._closing
            self._closing = True
            self._seal()
            self._work.notify_all()
            self._progress.notify_all()
            return first

    def stop(self) -> None:
        """Drops all records in the buffer, and ends the background thread."""
        with self._change():
            self._stopped = True
            self._seal()
            buffered = self._buffered_records()
            self._sealed.clear()
            self._buffered_bytes = 0
            self._drop("closed", buffered)
            self._work.notify_all()
            self._progress.notify_all()

    def take_failures(self, now: bool) -> list[Failure]:
        """Returns the dropped records that are not yet reported, each kind at most once a second but for `now`."""
        with self._change():
            if not now and self._report_left() > 0:
                return []
            self._next_report = time.monotonic() + REPORT_INTERVAL
            failures = [
                Failure(reason, _MESSAGES[reason], records) for reason, records in self._unreported.items() if records
            ]
            self._unreported.clear()
        return failures

    # Called by the background thread.

    def next_batch(self, report: Callable[[], None], wait: bool) -> Batch | None:
        """Waits for the next batch, `None` after the end. It stays in the buffer until `finish`.

        Calls `report`, without the lock, whenever there may be failures to report.
        """
        while True:
            with self._change():
                if self._stopped:
                    return None
                if self._age_left() <= 0:
                    self._seal()
                if self._sealed:
                    return self._sealed[0]
                if not wait:
                    return None
            with self._lock:
                left = min(self._age_left(), self._report_left())
                if left > 0 and not (self._sealed or self._stopped):
                    self._waiting = True
                    self._work.wait(None if left == math.inf else left)
                    self._waiting = False
            report()

    def is_closing(self) -> bool:
        """Says whether `begin_closing` was called."""
        with self._lock:
            return self._closing

    def pause(self, seconds: float, until_closing: bool, report: Callable[[], None]) -> None:
        """Waits before a retry, and not longer than until the client is being closed if `until_closing`."""
        deadline = time.monotonic() + seconds
        while True:
            with self._lock:
                left = deadline - time.monotonic()
                if left <= 0 or self._stopped or (until_closing and self._closing):
                    return
                self._work.wait(min(left, self._report_left()))
            report()

    def is_current(self, batch: Batch) -> bool:
        """Says whether the batch is still to be sent."""
        with self._lock:
            return bool(self._sealed) and self._sealed[0] is batch

    def count_retry(self) -> None:
        """Counts an attempt after the first one."""
        with self._change():
            self._retries += 1

    def count_denied(self) -> None:
        """Counts an attempt that was refused for its credential."""
        with self._change():
            self._denied += 1

    def finish(self, batch: Batch, rejected: int = 0, dropped: FailureKind | None = None) -> None:
        """Removes a batch that a node has acknowledged, but for `rejected` records, or that is dropped."""
        with self._change():
            if not self._sealed or self._sealed[0] is not batch:
                # Dropped meanwhile, and counted.
                return
            self._sealed.popleft()
            self._buffered_bytes = self._buffered_bytes - len(batch.data) if self._sealed or self._open else 0
            if dropped:
                self._dropped[dropped] += batch.records
            else:
                self._rejected += rejected
                self._acknowledged += batch.records - rejected
            self._progress.notify_all()

    # With the lock.

    @contextmanager
    def _change(self) -> Iterator[None]:
        with self._lock:
            outer, self._owner = self._owner, get_ident()
            try:
                yield
            finally:
                self._owner = outer
                if self._deferred and not outer:
                    self._add_deferred()

    def _add_deferred(self) -> None:
        while self._deferred:
            self._owner = get_ident()
            try:
                # Before this thread was the owner, a signal handler may have added them all.
                if self._deferred:
                    line, reason = self._deferred.popleft()
                    if reason is None:
                        self._add(line)
                    else:
                        self._drop(reason, 1)
            finally:
                self._owner = 0

    def _add(self, line: bytes) -> None:
        size = len(line)
        if self._closing:
            self._drop("closed", 1)
            return
        if self._buffered_bytes + size > self._settings.buffer_bytes:
            self._drop("full", 1)
            return
        batch = self._open
        if batch is not None and len(batch.data) + size > max(self._settings.batch_bytes, WHOLE_BODY_BYTES):
            self._seal()
            batch = None
        if batch is None:
            self._batches += 1
            batch = self._open = Batch(self._batches)
            if self._waiting:
                # The thread waits without a limit; now it has to wait for the age of this batch.
                self._work.notify()
        batch.data += line
        batch.records += 1
        self._buffered_bytes += size
        if len(batch.data) >= self._settings.batch_bytes or batch.records >= self._settings.batch_records:
            self._seal()

    def _buffered_records(self) -> int:
        return sum(batch.records for batch in self._sealed) + (self._open.records if self._open else 0)

    def _seal(self) -> None:
        if self._open is not None:
            self._sealed.append(self._open)
            self._open = None
            if self._waiting:
                self._work.notify()

    def _drop(self, reason: FailureKind, records: int) -> None:
        if records:
            self._dropped[reason] += records
            if not self._unreported:
                self._work.notify()
            self._unreported[reason] += records

    def _age_left(self) -> float:
        return self._open.opened + self._settings.batch_age - time.monotonic() if self._open else math.inf

    def _report_left(self) -> float:
        return self._next_report - time.monotonic() if self._unreported else math.inf

    def _wait_for_space(self, size: int) -> None:
        if size > self._settings.buffer_bytes:
            return
        deadline = time.monotonic() + self._settings.block_time
        while self._buffered_bytes + size > self._settings.buffer_bytes and not self._closing:
            # A full buffer must not wait for the age of its last batch.
            with self._change():
                self._seal()
            left = deadline - time.monotonic()
            if left <= 0:
                return
            self._progress.wait(left)
