"""What follows from the answer to a batch."""

import json
from dataclasses import dataclass
from typing import Final

RETRY_STATUSES: Final = frozenset({408, 429, 500, 502, 503, 504})
DENIED_STATUSES: Final = frozenset({401, 403})
PAUSE_MIN: Final = 0.1
PAUSE_MAX: Final = 10.0
RETRY_AFTER_MAX: Final = 60
#: Characters of a node's error in a report.
ERROR_CHARS_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The node stored the records but the rejected ones."""

    accepted: int
    rejected: int
    #: Reasons of some rejected records.
    errors: str


@dataclass(frozen=True, slots=True)
class Retry:
    """The batch is sent again, after at least this number of seconds."""

    reason: str
    retry_after: int


@dataclass(frozen=True, slots=True)
class Denied:
    """As `Retry`: the node may accept another token, or this one later."""

    reason: str
    retry_after: int


@dataclass(frozen=True, slots=True)
class Refused:
    """No node would accept the batch."""

    error: str


def outcome(status: int, retry_after: str | None, body: bytes) -> Acknowledged | Retry | Denied | Refused:
    """Returns what follows from an answer. `retry_after` is the header."""
    if status == 200:
        return _acknowledged(body) or Retry("status 200 with an unreadable answer", 0)
    error = error_of(status, body)
    if status in RETRY_STATUSES:
        return Retry(error, _seconds(retry_after))
    if status in DENIED_STATUSES:
        return Denied(error, _seconds(retry_after))
    return Refused(error)


def error_of(status: int, body: bytes) -> str:
    """Returns the error in an answer, or else its status."""
    answer = _object(body)
    error = answer.get("error") if answer else None
    if isinstance(error, str) and error:
        return error[:ERROR_CHARS_MAX]
    return f"status {status}"


def pause(attempt: int, random: float, retry_after: int) -> float:
    """Returns the seconds before an attempt: 1 is the first retry. `random` is from 0 to 1."""
    # The limit of the exponent keeps the number finite.
    ceiling = min(PAUSE_MIN * 2.0 ** min(attempt - 1, 30), PAUSE_MAX)
    return max(ceiling / 2 + random * ceiling / 2, retry_after)


def _acknowledged(body: bytes) -> Acknowledged | None:
    answer = _object(body)
    if answer is None:
        return None
    accepted, rejected = answer.get("accepted"), answer.get("rejected")
    # `bool` is a kind of `int`.
    if type(accepted) is not int or type(rejected) is not int or accepted < 0 or rejected < 0:
        return None
    errors = json.dumps(answer["errors"], ensure_ascii=False)[:ERROR_CHARS_MAX] if answer.get("errors") else ""
    return Acknowledged(accepted, rejected, errors)


def _object(body: bytes) -> dict[str, object] | None:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None


def _seconds(retry_after: str | None) -> int:
    text = (retry_after or "").strip()
    if not text.isascii() or not text.isdigit():
        return 0
    return min(int(text[:9]), RETRY_AFTER_MAX)
