"""Errors of reading. Writing raises none."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bucksaw._decoder import AnswerStats


class Error(Exception):
    """Base of all errors that reading raises."""


class UnreachableError(Error):
    """No endpoint gave an answer."""


class RefusedError(Error):
    """The node refused the request, for example for an invalid expression."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        #: Status of the HTTP answer.
        self.status = status


class IncompleteAnswerError(Error):
    """The answer ended before its statistics: records may be missing."""


class InvalidAnswerError(Error):
    """The answer is not one of a Bucksaw node."""


class PartialAnswerError(Error):
    """Nodes were missing or ran out of time: records may be missing. Raised after the last record of the answer."""

    def __init__(self, stats: "AnswerStats", count: int | None = None) -> None:
        super().__init__("; ".join(stats.partial_reasons) or "the answer is partial")
        #: Statistics of the answer.
        self.stats = stats
        #: Reasons, one sentence each.
        self.reasons = stats.partial_reasons
        #: The answer of `Client.count`, a lower bound.
        self.count = count
