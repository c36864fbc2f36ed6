"""Values that programs log and JSON does not have. One bad record must not spoil a batch."""

import datetime
import decimal
import enum
import fractions
import json
import uuid
from collections import OrderedDict, UserDict, namedtuple
from collections.abc import ItemsView, Iterator
from typing import Any

import pytest

from bucksaw import Client, _records
from bucksaw._records import DEPTH_MAX, LINE_BYTES_MAX, VALUES_MAX, encode
from tests.node import Node
from tests.stub import TIMEOUT, Stub

Point = namedtuple("Point", "x y")


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    HIGH = 3


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError("never called")


class Bad:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class BadError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class BadMapping(UserDict[str, object]):
    def items(self) -> ItemsView[str, object]:
        raise RuntimeError("no items")


class WorseText:
    def __str__(self) -> str:
        raise BadError


def one(value: object) -> Any:
    """The value of an attribute after encoding."""
    line = encode(0, "m", "info", [("a", value)])
    line.decode()
    return json.loads(line, parse_constant=pytest.fail)["a"]


cyclic: dict[str, object] = {"n": 1}
cyclic["self"] = [cyclic]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (float("-inf"), "-inf"),
        ([float("nan"), 1.5], ["nan", 1.5]),
        (b"a\xffb", "a\ufffdb"),
        (bytearray("é".encode()), "é"),
        (memoryview(b"ab"), "ab"),
        (datetime.datetime(2026, 11, 26, tzinfo=datetime.timezone.utc), "2026-11-26T00:00:00+00:00"),
        (datetime.date(2026, 11, 26), "2026-11-26"),
        (datetime.time(1, 2), "01:02:00"),
        (datetime.timedelta(seconds=1), "0:00:01"),
        (decimal.Decimal("1.10"), "1.10"),
        (fractions.Fraction(1, 3), "1/3"),
        (uuid.UUID(int=0), "00000000-0000-0000-0000-000000000000"),
        (Colour.RED, "Colour.RED"),
        (Level.HIGH, 3),
        (Text("t"), "t"),
        (ValueError("v"), "v"),
        (int, "<class 'int'>"),
        ((1, "x"), [1, "x"]),
        (Point(1, 2), [1, 2]),
        ({7}, [7]),
        (frozenset(), []),
        (OrderedDict(b=1), {"b": 1}),
        (UserDict({"b": {1: None}}), {"b": {"1": None}}),
        ({None: 1, 2.5: 2, (1, 2): 3, True: 4}, {"None": 1, "2.5": 2, "(1, 2)": 3, "True": 4}),
        ({Bad(): 1}, {"!ERROR: RuntimeError: no text": 1}),
        ("\ud800", "\ufffd"),
        ("a\udcffb", "a\ufffdb"),
        ("\ud83d\ude00", "😀"),
        ({"\udcff": "\udcff"}, {"\ufffd": "\ufffd"}),
        (10**400, 10**400),
        (Bad(), "!ERROR: RuntimeError: no text"),
        ([1, Bad()], [1, "!ERROR: RuntimeError: no text"]),
        (WorseText(), "!ERROR: BadError"),
        (cyclic, {"n": 1, "self": ["!ERROR: the value contains itself"]}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_value(value: object, expected: object) -> None:
    assert one(value) == expected


def test_number_with_too_many_digits() -> None:
    assert one(10**10_000).startswith("!ERROR: ValueError")
    line = json.loads(encode(0, "m", None, [("a", 10**10_000), ("b", 1)]))
    assert line["b"] == 1


def test_deep_values_end() -> None:
    value: object = 1
    for _ in range(100_000):
        value = [value]
    text = json.dumps(one(value))
    assert text.count("[") == DEPTH_MAX
    assert "levels" in text


def test_value_that_contains_another_often() -> None:
    value: object = 1
    for _ in range(30):
        value = [value, value]
    assert one(value) == f"!ERROR: more than {VALUES_MAX} values"
    assert one([1] * VALUES_MAX) == f"!ERROR: more than {VALUES_MAX} values"
    assert one([1] * (VALUES_MAX - 1)) == [1] * (VALUES_MAX - 1)


def test_names() -> None:
    attributes: list[tuple[object, object]] = [(1, "a"), (None, "b"), (Bad(), "c"), ("\ud800", "d"), ("x" * 300, "e")]
    decoded = json.loads(encode(0, "m", None, attributes))
    assert {name: decoded[name] for name in decoded if name not in ("time", "message")} == {
        "1": "a",
        "None": "b",
        "!ERROR: RuntimeError: no text": "c",
        "\ufffd": "d",
        "bucksaw.dropped_attributes": 1,
    }


@pytest.mark.parametrize(
    ("message", "expected"),
    [(1, "1"), (None, "None"), (b"a\xff", "a\ufffd"), (Bad(), "!ERROR: RuntimeError: no text"), ({"a": 1}, "{'a': 1}")],
    ids=["int", "none", "bytes", "bad", "dict"],
)
def test_message(message: object, expected: str) -> None:
    assert json.loads(encode(0, message, None, []))["message"] == expected


@pytest.mark.parametrize("time_ns", [-(10**30), 10**30])
def test_impossible_time_is_replaced(time_ns: int) -> None:
    assert json.loads(encode(time_ns, "m", None, []))["time"].startswith("20")


def test_time_before_1970() -> None:
    assert json.loads(encode(-1, "m", None, []))["time"] == "1969-12-31T23:59:59.999999999Z"


@pytest.mark.parametrize("character", ["a", "é", "😀", "\n", "\0", '"', "\\", "\ud800"])
@pytest.mark.parametrize("offset", range(7))
def test_long_message_is_cut_between_characters(character: str, offset: int) -> None:
    message = "." * offset + character * (LINE_BYTES_MAX + 10)
    line = encode(0, message, "info", [("a", 1)])
    assert LINE_BYTES_MAX - 16 < len(line) - 1 < len(line) <= LINE_BYTES_MAX
    decoded = json.loads(line)
    expected = message.replace("\ud800", "\ufffd")
    assert expected.startswith(decoded["message"])
    left = len(expected) - len(decoded["message"])
    assert decoded["bucksaw.truncated_bytes"] == left * len(expected[-1].encode())


def test_message_just_fits() -> None:
    empty = len(encode(0, "", None, []))
    line = encode(0, "x" * (LINE_BYTES_MAX - empty), None, [])
    assert len(line) == LINE_BYTES_MAX
    assert "bucksaw.truncated_bytes" not in json.loads(line)
    assert "bucksaw.truncated_bytes" in json.loads(encode(0, "x" * (LINE_BYTES_MAX - empty + 1), None, []))


def test_long_attributes_are_dropped(stub: Stub) -> None:
    with Client(stub.address, on_error=lambda _: None) as client:
        client.log("m", attributes={"a": "x" * LINE_BYTES_MAX})
        client.log("m", attributes={"a": "x" * (LINE_BYTES_MAX // 2), "b": "y" * (LINE_BYTES_MAX // 2)})
        client.log("kept")
        assert client.flush(TIMEOUT)
        stats = client.stats()
        assert (stats.logged, stats.acknowledged, stats.dropped["too_large"]) == (3, 1, 2)


def test_nested_objects_that_the_node_would_refuse() -> None:
    wide = {f"k{number}": number for number in range(200)}
    decoded = json.loads(encode(0, "m", "info", [("a", wide), ("b", {"x": 1, **wide}), ("c", {"y": 2})]))
    assert decoded["a"] == wide
    assert json.loads(decoded["b"]) == {"x": 1, **wide}
    assert decoded["c"] == {"y": 2}
    long = {"b": {"x" * 252: 1}}
    assert json.loads(json.loads(encode(0, "m", None, [("a", long)]))["a"]) == long
    fits = {"b": {"x" * 251: 1}}
    assert one(fits) == fits


def test_attributes_that_cannot_be_read(stub: Stub) -> None:
    def pairs() -> Iterator[tuple[object, object]]:
        yield "a", 1
        raise RuntimeError("changed")

    with Client(stub.address) as client:
        client.log("m", "info", pairs())
        client.log("m", "info", 7)  # type: ignore[arg-type]
        client.log("m", "info", BadMapping())
        client.log("m", 3, {"level": "l"})  # type: ignore[arg-type]
        client.log("m", "unknown")
        assert client.flush(TIMEOUT)
    records = stub.records()
    assert records[0]["bucksaw.error"] == "!ERROR: RuntimeError: changed"
    assert records[1]["bucksaw.error"].startswith("!ERROR: TypeError")
    assert records[2]["bucksaw.error"] == "!ERROR: RuntimeError: no items"
    assert [record.get("level") for record in records] == ["info", "info", "info", "l", None]


def test_the_node_stores_all_of_them(node: Node) -> None:
    """What the encoder makes of strange values is what the node accepts."""
    wide = {f"k{number}": {"n": number} for number in range(300)}
    deep: object = 1
    for _ in range(200):
        deep = {"d": deep}
    values = [float("nan"), b"\xff", "\ud800", 10**400, 10**10_000, Bad(), cyclic, wide, deep, {"": {"": 1}}, "\0", []]
    with Client(node.address) as client:
        for value in values:
            client.log("strange", "info", {"a": value, "": value})
        client.log("many", "info", {f"a{number}": number for number in range(300)} | {"o": {"x": 1}})
        client.log("mixed", "info", {f"a{number}": {"x": 1, "y": 2} for number in range(200)})
        client.log("", "info")
        client.log("x" * (2 << 20), "info", {f"a{number}": number for number in range(300)})
        client.log("two\nlines\n")
        assert client.flush(TIMEOUT)
        stats = client.stats()
        assert stats.acknowledged == stats.logged == len(values) + 5
        with client.query() as answer:
            lines = [record.text for record in answer if not record.cut]
    assert len(lines) == stats.logged
    assert "two\nlines" in lines


def test_known_names_change_nothing() -> None:
    """The encoder keeps names that it has seen. Reserved ones depend on the record, and there is a limit."""
    for _ in range(2):
        for level, name in (("info", "level_"), (None, "level")):
            decoded = json.loads(encode(0, "m", level, [("level", 1), ("a", 1), ("a", {"b": 2}), ("a", 3)]))
            assert decoded == {
                "time": "1970-01-01T00:00:00.000000000Z",
                "message": "m",
                "a": 3,
                **({"level": "info"} if level else {}),
                name: 1,
            }
    for number in range(2 * _records._STARTS_MAX):
        assert json.loads(encode(0, "m", None, [(f'"{number}', None)]))[f'"{number}'] is None
    assert len(_records._starts) <= _records._STARTS_MAX
