"""Records as they come back, and the decoder of answers."""

import base64
import datetime
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from bucksaw.errors import IncompleteAnswerError, InvalidAnswerError

#: Bytes of one line of an answer.
LINE_BYTES_MAX: Final = 16 << 20

_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z", re.ASCII)
_EPOCH: Final = datetime.datetime(1970, 1, 1)
_UTC_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


@dataclass(frozen=True, slots=True)
class Record:
    """A record of an answer."""

    #: Names the record in the whole cluster.
    id: str
    #: Time in nanoseconds since 1970.
    time_unix_nano: int
    labels: dict[str, str]
    #: Attributes, with U+FFFD for bytes that are not UTF-8.
    attributes: dict[str, str]
    #: Those attributes that are not UTF-8.
    binary_attributes: dict[str, bytes]
    #: The line, without its line end.
    line: bytes
    #: The line was cut for its length, and continues in the next record.
    cut: bool
    #: The last line of a source that ended without a line end.
    unterminated: bool

    @property
    def time(self) -> datetime.datetime:
        """Time in UTC, in whole microseconds."""
        return _UTC_EPOCH + datetime.timedelta(microseconds=self.time_unix_nano // 1000)

    @property
    def text(self) -> str:
        """The line as text, with U+FFFD for bytes that are not UTF-8."""
        return self.line.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice of a tail: records were skipped, or a node was lost or is followed from now on."""

    #: Members as in docs/http.md, such as `skipped_bytes`, `lost` or `joined`.
    members: dict[str, object]


@dataclass(frozen=True, slots=True)
class AnswerStats:
    """Statistics at the end of an answer."""

    #: Number of matching records.
    matched: int
    #: Records may be missing.
    partial: bool
    #: Why, one sentence each.
    partial_reasons: tuple[str, ...]
    #: All members, as in docs/http.md.
    members: dict[str, object]


Item = Record | Notice | AnswerStats


def decode(parts: Iterable[bytes]) -> Iterator[list[Item]]:
    """Decodes an answer that comes in parts. Yields the items of each part, until the statistics.

    Raises InvalidAnswerError and IncompleteAnswerError after the last item before the failure.
    """
    for lines in _lines(parts):
        items: list[Item] = []
        for line in lines:
            try:
                item = parse_item(line)
            except InvalidAnswerError:
                if items:
                    yield items
                raise
            if item is not None:
                items.append(item)
            if type(item) is AnswerStats:
                break
        if items:
            yield items
            if type(items[-1]) is AnswerStats:
                return
    raise IncompleteAnswerError("the answer ended before its statistics")


def _lines(parts: Iterable[bytes]) -> Iterator[list[bytes]]:
    start: list[bytes] = []
    start_bytes = 0
    for part in parts:
        *lines, rest = part.split(b"\n")
        if lines:
            lines[0] = b"".join(start) + lines[0]
            start, start_bytes = [], 0
            if len(lines[0]) > LINE_BYTES_MAX:
                raise InvalidAnswerError(f"a line is longer than {LINE_BYTES_MAX} bytes")
            yield lines
        start.append(rest)
        start_bytes += len(rest)
        if start_bytes > LINE_BYTES_MAX:
            raise InvalidAnswerError(f"a line is longer than {LINE_BYTES_MAX} bytes")
    last = b"".join(start)
    try:
        parse_item(last)
    except InvalidAnswerError:
        return
    yield [last]


def parse_item(line: bytes) -> Item | None:
    """Parses one line of an answer: `None` for one of an unknown kind."""
    if not line.strip():
        return None
    members = parse_object(line)
    if "stats" in members:
        return parse_stats(members["stats"])
    if "line" in members or "line_base64" in members:
        return _parse_record(members)
    if not members.keys().isdisjoint(("skipped_bytes", "skipped_records", "lost", "joined")):
        return Notice(members)
    return None


def parse_object(text: bytes) -> dict[str, object]:
    """Parses a JSON object."""
    try:
        members = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidAnswerError(f"not JSON: {text[:80]!r}") from None
    if not isinstance(members, dict):
        raise InvalidAnswerError(f"not a JSON object: {text[:80]!r}")
    return members


def parse_stats(stats: object) -> AnswerStats:
    """Parses the statistics of an answer."""
    if not isinstance(stats, dict):
        raise InvalidAnswerError("the statistics are not an object")
    matched, partial, reasons = stats.get("matched", 0), stats.get("partial", False), stats.get("partial_reasons", [])
    if type(matched) is not int or type(partial) is not bool or not isinstance(reasons, list):
        raise InvalidAnswerError("invalid statistics")
    return AnswerStats(matched, partial, tuple(str(reason) for reason in reasons), stats)


def _parse_record(members: dict[str, object]) -> Record:
    try:
        attributes = _texts(members.get("attributes"))
        binary = {name: _bytes(value) for name, value in _texts(members.get("attributes_base64")).items()}
        for name, value in binary.items():
            attributes[name] = value.decode(errors="replace")
        line = members.get("line_base64")
        return Record(
            id=_text(members.get("id")),
            time_unix_nano=_time(_text(members.get("time"))),
            labels=_texts(members.get("labels")),
            attributes=attributes,
            binary_attributes=binary,
            line=_text(members.get("line")).encode() if line is None else _bytes(_text(line)),
            cut=members.get("cut") is True,
            unterminated=members.get("unterminated") is True,
        )
    except ValueError as error:
        raise InvalidAnswerError(f"invalid record: {error}") from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("a text is missing")
    return value


def _texts(value: object) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise ValueError("expected an object with texts")
    return value


def _bytes(value: str) -> bytes:
    return base64.b64decode(value, validate=True)


def _time(text: str) -> int:
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(f"invalid time {text[:80]!r}")
    since = datetime.datetime.fromisoformat(found[1]) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + int((found[2] or "").ljust(9, "0"))
