"""Encodes one record as one line of NDJSON.

The caller of the logging interface encodes, so that objects may change after the call. Whatever the caller
passes, the line is valid UTF-8 and valid JSON: one bad record must not make the node refuse a whole batch.
"""

import datetime
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from math import isfinite
from typing import Final

#: Bytes of an encoded line with its line end.
LINE_BYTES_MAX: Final = 1 << 20
#: Attributes at the top level of a record. The node accepts 256 after it has divided nested objects.
ATTRIBUTES_MAX: Final = 250
#: Bytes of a name, in UTF-8. The node accepts no longer one.
NAME_BYTES_MAX: Final = 255
#: Levels of nested values. Cyclic and very deep values end here.
DEPTH_MAX: Final = 32
#: Values in one attribute, with those of its members. It limits the time of a call: a small object may contain
#: another one any number of times.
VALUES_MAX: Final = 1 << 16
#: The node divides nested objects down to this level; deeper objects are text.
DIVIDED_DEPTH: Final = 8

DROPPED_ATTRIBUTES: Final = "bucksaw.dropped_attributes"
TRUNCATED_BYTES: Final = "bucksaw.truncated_bytes"

#: Names with a meaning of their own, which attributes cannot have.
_RESERVED: Final = frozenset({"", "time", "message", "level"})


def _json_encoder() -> Callable[[object], str]:
    encoder = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":"))
    # Another Python may have no such object, or another one.
    with suppress(Exception):
        # What `encode` calls in the end. It makes this object anew for each call, which takes a third of its time.
        parts = json.encoder.c_make_encoder(  # type: ignore[attr-defined]
            None, encoder.default, json.encoder.encode_basestring, None, ":", ",", False, False, False
        )
        if "".join(parts({"a": ["\u00e9", 1.5, None]}, 0)) == '{"a":["\u00e9",1.5,null]}':
            return lambda value: "".join(parts(value, 0))
    return encoder.encode


_json: Final = _json_encoder()
_quote: Final = json.encoder.encode_basestring
#: The starts of members, `,"name":`, by names that are neither reserved nor long. Programs have few names.
_starts: dict[str, str] = {}
_STARTS_MAX: Final = 1024
#: Python refuses to write longer numbers from some length on, which a program can change.
_SHORT_INT_MAX: Final = 1 << 64
_EPOCH: Final = datetime.datetime(1970, 1, 1)
_SURROGATE_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class TooLargeError(Exception):
    """The attributes alone are longer than a line may be."""


class _TooManyValuesError(Exception):
    pass


def encode(time_ns: int, message: object, level: str | None, attributes: Iterable[tuple[object, object]]) -> bytes:
    """Returns the line of a record, with its line end.

    Raises TooLargeError if the attributes alone are longer than `LINE_BYTES_MAX`.
    """
    text = message if type(message) is str else to_text(message)
    #: The members behind the message by name, each as JSON: `,"name":value`.
    members: dict[str, str] = {}
    if level is not None:
        members["level"] = f',"level":{_quote(level)}'
    members_max = len(members) + ATTRIBUTES_MAX
    #: Those that are objects.
    nested: dict[str, object] = {}
    dropped = 0
    for key, value in attributes:
        name = key if type(key) is str else to_text(key)
        start = _starts.get(name)
        if start is None:
            if name in _RESERVED:
                if name != "level" or level is not None:
                    name += "_"
            # A character has at most four bytes, so a shorter name needs no closer look.
            elif len(name) * 4 > NAME_BYTES_MAX and _name_bytes(name) > NAME_BYTES_MAX:
                dropped += 1
                continue
            start = _start(name)
        if len(members) >= members_max and name not in members:
            dropped += 1
            continue
        if nested:
            nested.pop(name, None)
        kind = type(value)
        if kind is str:
            members[name] = start + _quote(value)  # type: ignore[arg-type]
        elif kind is int and -_SHORT_INT_MAX < value < _SHORT_INT_MAX:  # type: ignore[operator]
            members[name] = f"{start}{value}"
        elif kind is float and isfinite(value):  # type: ignore[arg-type]
            members[name] = f"{start}{value!r}"
        elif kind is bool:
            members[name] = start + ("true" if value else "false")
        elif value is None:
            members[name] = start + "null"
        else:
            plain = _plain_or_error(value)
            members[name] = start + _json_or_error(plain)
            if type(plain) is dict:
                nested[name] = plain
    if nested:
        _limit_nested(members, nested, members_max)
    if dropped:
        members[DROPPED_ATTRIBUTES] = f"{_start(DROPPED_ATTRIBUTES)}{dropped}"
    head = f'{{"time":"{_time(time_ns)}","message":'
    # A character has at least one byte, so such a message is too long. Encoding it whole would need more memory.
    if len(text) < LINE_BYTES_MAX:
        line = to_utf8(f"{head}{_quote(text)}{''.join(members.values())}}}\n")
        if len(line) <= LINE_BYTES_MAX:
            return line
    return _truncated_line(head, text, members)


def _start(name: str) -> str:
    """Returns the start of a member. Keeps those that `encode` needs not look at again."""
    start = f",{_quote(name)}:"
    if len(_starts) < _STARTS_MAX and len(name) * 4 <= NAME_BYTES_MAX and name not in _RESERVED:
        _starts[name] = start
    return start


def to_text(value: object) -> str:
    """Returns the text of any value. A failed conversion becomes a text with its reason."""
    plain = _plain_or_error(value)
    if type(plain) is str:
        return plain
    try:
        return str(value)
    except Exception as error:
        return error_text(error)


def error_text(error: BaseException) -> str:
    """Returns the text that replaces a value whose conversion failed."""
    try:
        reason = str(error)
    except Exception:
        reason = ""
    name = type(error).__name__
    return f"!ERROR: {name}: {reason}" if reason else f"!ERROR: {name}"


def to_utf8(text: str) -> bytes:
    """Returns UTF-8, with U+FFFD for each surrogate without its other half."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        text = _SURROGATE_PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
        return _SURROGATE.sub("\ufffd", text).encode()


#: The last second as text. Records come in the order of time, and a tuple changes as a whole.
_last_second: tuple[int, str] = (-1, "")


def _time(time_ns: int) -> str:
    global _last_second
    seconds, nanoseconds = divmod(time_ns, 1_000_000_000)
    last, text = _last_second
    if seconds != last:
        try:
            # Naive, because all of it is UTC.
            text = (_EPOCH + datetime.timedelta(seconds=seconds)).isoformat()
        except OverflowError:
            # RFC 3339 has no such year.
            return _time(time.time_ns())
        _last_second = (seconds, text)
    return f"{text}.{nanoseconds:09}Z"


def _json_or_error(value: object) -> str:
    try:
        return _json(value)
    except Exception as error:
        # A number may have too many digits for text.
        return _quote(error_text(error))


def _truncated_line(head: str, message: str, members: dict[str, str]) -> bytes:
    message_bytes = sum(
        len(to_utf8(message[at : at + LINE_BYTES_MAX])) for at in range(0, len(message), LINE_BYTES_MAX)
    )
    start = _start(TRUNCATED_BYTES)
    rest = "".join({**members, TRUNCATED_BYTES: ""}.values())
    # The number of missing bytes has at most as many digits.
    left = LINE_BYTES_MAX - len(to_utf8(f'{head}""{rest}{start}{message_bytes}}}\n'))
    if left < 0:
        raise TooLargeError
    quoted = to_utf8(_quote(message[:left]))[:-1]
    prefix = _whole_characters(quoted[: 1 + left])
    return to_utf8(f"{head}{_quote(prefix)}{rest}{start}{message_bytes - len(prefix.encode())}}}\n")


def _whole_characters(quoted: bytes) -> str:
    """Returns the characters of a JSON text that was cut anywhere, without its closing quote."""
    # An escape has up to six bytes, a character up to four.
    for end in range(len(quoted), max(len(quoted) - 6, 0), -1):
        try:
            text = json.loads(quoted[:end] + b'"')
        except ValueError:
            continue
        if isinstance(text, str):
            return text
    return ""


def _plain_or_error(value: object) -> object:
    try:
        return _Plain().convert(value, 0)
    except _TooManyValuesError:
        return f"!ERROR: more than {VALUES_MAX} values"
    except Exception as error:
        return error_text(error)


class _Plain:
    """Converts one attribute to what JSON has. Copies it, so that other threads may change it meanwhile."""

    def __init__(self) -> None:
        self.values = 0
        #: Ids of the values that contain the current one.
        self.path: set[int] = set()

    def convert(self, value: object, depth: int) -> object:
        self.values += 1
        if self.values > VALUES_MAX:
            raise _TooManyValuesError
        if value is None or isinstance(value, (bool, int)):
            return value
        if isinstance(value, str):
            # Without the methods of a subclass.
            return str.__str__(value)
        if isinstance(value, float):
            return value if isfinite(value) else str(float(value))
        if isinstance(value, (bytes, bytearray, memoryview)):
            return bytes(value).decode(errors="replace")
        if isinstance(value, (Mapping, list, tuple, set, frozenset)):
            return self.convert_container(value, depth)
        if isinstance(value, (datetime.date, datetime.time)):
            return value.isoformat()
        return str.__str__(str(value))

    def convert_container(self, value: Mapping[object, object] | Iterable[object], depth: int) -> object:
        if id(value) in self.path:
            return "!ERROR: the value contains itself"
        if depth == DEPTH_MAX:
            return f"!ERROR: more than {DEPTH_MAX} levels"
        self.path.add(id(value))
        try:
            if isinstance(value, Mapping):
                return {self.convert_key(key): self.convert_item(item, depth) for key, item in value.items()}
            return [self.convert_item(item, depth) for item in value]
        finally:
            self.path.discard(id(value))

    def convert_item(self, value: object, depth: int) -> object:
        try:
            return self.convert(value, depth + 1)
        except _TooManyValuesError:
            raise
        except Exception as error:
            return error_text(error)

    def convert_key(self, key: object) -> str:
        try:
            return str.__str__(key) if isinstance(key, str) else str(key)
        except Exception as error:
            return error_text(error)


def _limit_nested(members: dict[str, str], nested: dict[str, object], members_max: int) -> None:
    """Turns nested objects into JSON text, those with most values first, until the node accepts the record.

    The node divides objects into attributes, and refuses a record with too many of them or with too long a name.
    """
    leaves = {}
    for name in [name for name in members if name in nested]:
        count = _leaves(nested[name], _name_bytes(name), 0)
        if count is None:
            members[name] = _start(name) + _text_of(nested[name])
        else:
            leaves[name] = count
    total = len(members) - len(leaves) + sum(leaves.values())
    for name in sorted(leaves, key=lambda name: leaves[name], reverse=True):
        if total <= members_max:
            break
        total -= leaves[name] - 1
        members[name] = _start(name) + _text_of(nested[name])


def _text_of(value: object) -> str:
    """Returns a JSON text whose content is the JSON text of an object, or the error of one that JSON cannot have."""
    try:
        return _quote(_json(value))
    except Exception as error:
        return _quote(error_text(error))


def _name_bytes(name: str) -> int:
    """Returns the bytes of a name at the node, which puts U+FFFD in place of NUL."""
    return len(to_utf8(name)) + 2 * name.count("\0")


def _leaves(value: object, name_bytes: int, depth: int) -> int | None:
    """Returns the number of attributes in a value, `None` if the name of one is too long."""
    if name_bytes > NAME_BYTES_MAX:
        return None
    if type(value) is not dict or not value or depth == DIVIDED_DEPTH:
        return 1
    total = 0
    for name, item in value.items():
        count = _leaves(item, name_bytes + 1 + _name_bytes(name), depth + 1)
        if count is None:
            return None
        total += count
    return total
