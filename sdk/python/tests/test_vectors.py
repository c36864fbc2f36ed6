"""The vectors that all SDKs pass."""

import base64
import json
import logging
from typing import Any

import pytest

from bucksaw._decoder import AnswerStats, Item, Record, decode
from bucksaw._keys import make_key
from bucksaw._levels import level_of_number
from bucksaw._outcomes import Acknowledged, Denied, Refused, Retry, outcome, pause
from bucksaw._records import LINE_BYTES_MAX, encode
from bucksaw._settings import Settings, parse_endpoints, parse_labels
from bucksaw.errors import IncompleteAnswerError, InvalidAnswerError
from tests.conftest import REPOSITORY, vectors


def named(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("vector", [pytest.param(entry, id=entry["name"]) for entry in vectors(name)])


@named("records")
def test_record(vector: dict[str, Any]) -> None:
    message = vector["message"] if "message" in vector else _repeated(vector)
    attributes = [(name, value) for name, value in vector["attributes"]]
    line = encode(int(vector["time_unix_nano"]), message, vector["level"], attributes)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    decoded = json.loads(line)
    assert list(decoded)[:2] == ["time", "message"]
    if "object" in vector:
        assert decoded == vector["object"]
        return
    # Also with its line end.
    assert LINE_BYTES_MAX - 16 < len(line[:-1]) < len(line) <= LINE_BYTES_MAX
    assert message.startswith(decoded["message"])
    missing = len(message.encode()) - len(decoded["message"].encode())
    assert decoded["bucksaw.truncated_bytes"] == missing > 0


def _repeated(vector: dict[str, Any]) -> str:
    return str(vector["message_repeat"]["text"]) * int(vector["message_repeat"]["count"])


@named("labels")
def test_labels(vector: dict[str, Any]) -> None:
    if vector["sent"] is None:
        with pytest.raises(ValueError, match=r"label"):
            parse_labels(vector["labels"])
    else:
        assert parse_labels(vector["labels"]) == tuple(vector["sent"].items())


@named("requests")
def test_request(vector: dict[str, Any]) -> None:
    settings = Settings(
        endpoints=parse_endpoints(vector["endpoint"]),
        labels=parse_labels(vector["labels"]),
        durability=vector["durability"],
        batch_bytes=1,
        batch_records=1,
        batch_age=1,
        buffer_bytes=1,
        when_full="drop",
        block_time=1,
        request_time=1,
        close_time=1,
    )
    (endpoint,) = settings.endpoints
    url = str(endpoint).removesuffix(endpoint.path) + settings.ingest_target(endpoint)
    assert url == vector["url"]


@pytest.mark.parametrize("vector", vectors("keys"))
def test_key(vector: dict[str, Any]) -> None:
    assert make_key(vector["unix_ms"], bytes.fromhex(vector["random_hex"])) == vector["key"]


@named("outcomes")
def test_outcome(vector: dict[str, Any]) -> None:
    result = outcome(vector["status"], vector["headers"].get("Retry-After"), vector["body"].encode())
    match vector["outcome"]:
        case "acknowledged":
            assert isinstance(result, Acknowledged)
            assert (result.accepted, result.rejected) == (vector["accepted"], vector["rejected"])
        case "retry":
            assert isinstance(result, Retry)
            assert result.retry_after == vector["retry_after_seconds"]
        case "denied":
            assert result == Denied(vector["error"], vector["retry_after_seconds"])
        case "refused":
            assert result == Refused(vector["error"])
        case other:
            pytest.fail(f"unknown outcome {other}")


@pytest.mark.parametrize("vector", vectors("pauses"))
def test_pause(vector: dict[str, Any]) -> None:
    seconds = pause(vector["attempt"], vector["random"], vector["retry_after_seconds"])
    assert seconds * 1000 == pytest.approx(vector["milliseconds"])


@named("answers")
def test_answer(vector: dict[str, Any]) -> None:
    items: list[Item] = []
    end = "complete"
    try:
        for batch in decode(chunk.encode() for chunk in vector["chunks"]):
            items += batch
    except IncompleteAnswerError:
        end = "incomplete"
    except InvalidAnswerError:
        end = "invalid"
    if end == "complete":
        stats = items.pop()
        assert isinstance(stats, AnswerStats)
        end = "partial" if stats.partial else end
        assert stats.matched == vector["matched"]
        assert list(stats.partial_reasons) == vector.get("reasons", [])
    assert end == vector["end"]
    assert [_as_vector(item) for item in items] == vector["records"]


def _as_vector(item: Item) -> dict[str, Any]:
    assert isinstance(item, Record)
    attributes = {name: text.encode() for name, text in item.attributes.items()} | item.binary_attributes
    return {
        "id": item.id,
        "time_unix_nano": str(item.time_unix_nano),
        "labels": item.labels,
        "attributes_base64": {name: base64.b64encode(value).decode() for name, value in attributes.items()},
        "line_base64": base64.b64encode(item.line).decode(),
        "cut": item.cut,
        "unterminated": item.unterminated,
    }


def test_levels() -> None:
    entries = json.loads((REPOSITORY / "sdk" / "vectors" / "levels.json").read_text())["python"]
    starts = sorted(map(int, entries))
    assert logging.CRITICAL in starts
    for number in range(1, 1000):
        assert level_of_number(number) == entries[str(max(start for start in starts if start <= number))]
