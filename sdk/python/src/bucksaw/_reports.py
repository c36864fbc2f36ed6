"""Reports of failures, to the program or to standard error."""

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

FailureKind = Literal["retry", "denied", "rejected", "full", "refused", "too_old", "too_large", "closed"]

#: Seconds between two lines of one kind on standard error.
REPORT_INTERVAL: Final = 60.0

_TEXTS: Final[dict[FailureKind, str]] = {
    "retry": "are sent again",
    "denied": "are sent again, because the node denies access",
    "rejected": "were rejected",
    "full": "were dropped",
    "refused": "were dropped",
    "too_old": "were dropped",
    "too_large": "were dropped",
    "closed": "were dropped",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure of a client, for the function `on_error`."""

    #: `retry`: the batch is sent again. `denied`: the same, after the node refused the token, or the lack of one.
    #: `rejected`: the node stored the batch without these records. All others are reasons of dropped records, with
    #: the names that `Stats.dropped` has.
    kind: FailureKind
    #: What happened, in one sentence.
    message: str
    #: Number of records.
    records: int

    def __str__(self) -> str:
        return f"{self.records} records {_TEXTS[self.kind]}: {self.message}"


class Reporter:
    """Passes failures on. Never raises, and never logs."""

    def __init__(self, on_error: Callable[[Failure], object] | None) -> None:
        self._on_error = on_error
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        #: Per kind, the time of the last line and the records since.
        self._written: dict[FailureKind, tuple[float, int]] = {}

    def after_fork(self) -> None:
        """Makes the reporter usable in a child process, where another thread may have held its lock."""
        self._reset()

    def report(self, failure: Failure) -> None:
        """Reports a failure. The function of the program may block."""
        if self._on_error is None:
            self._write(failure)
            return
        try:
            self._on_error(failure)
        except Exception as error:
            self._write(failure, f" (on_error raised {type(error).__name__})")

    def _write(self, failure: Failure, note: str = "") -> None:
        now = time.monotonic()
        with self._lock:
            last, records = self._written.get(failure.kind, (-REPORT_INTERVAL, 0))
            records += failure.records
            if now - last < REPORT_INTERVAL:
                self._written[failure.kind] = (last, records)
                return
            self._written[failure.kind] = (now, 0)
        # A program may have redirected `sys.stderr` to its loggers.
        stream = sys.__stderr__
        if stream is None:
            return
        try:
            stream.write(f"bucksaw: {Failure(failure.kind, failure.message, records)}{note}\n")
            stream.flush()
        except (OSError, ValueError):
            # Standard error is closed.
            pass
