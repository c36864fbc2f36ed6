"""structlog, with the real package."""

from collections.abc import Iterator
from typing import Any

import pytest
import structlog

import bucksaw
import bucksaw.structlog
from bucksaw import Client
from tests.node import Node
from tests.stub import TIMEOUT, Stub


@pytest.fixture(autouse=True)
def _reset() -> Iterator[None]:
    yield
    structlog.contextvars.clear_contextvars()
    structlog.reset_defaults()


def test_processor(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    with Client(node.address) as client:
        structlog.configure(
            processors=[
                structlog.contextvars.merge_contextvars,
                structlog.processors.add_log_level,
                structlog.processors.StackInfoRenderer(),
                bucksaw.structlog.Processor(client),
                structlog.processors.JSONRenderer(),
            ]
        )
        structlog.contextvars.bind_contextvars(request="r1")
        log = structlog.get_logger().bind(user={"id": "u7"})
        log.info("paid", order=4711)
        try:
            raise ValueError("no money")
        except ValueError:
            log.exception("failed", stack_info=True)
        log.critical("broken")
        assert client.flush(TIMEOUT)
        with client.query() as answer:
            paid, failed, broken = answer
    assert paid.text == "paid"
    assert paid.attributes == {"level": "info", "request": "r1", "user.id": "u7", "order": "4711"}
    assert failed.attributes["exception.type"] == "ValueError"
    assert failed.attributes["exception.stacktrace"].endswith("ValueError: no money")
    assert "test_structlog.py" in failed.attributes["code.stacktrace"]
    assert failed.attributes["level"] == "error"
    assert broken.attributes["level"] == "fatal"
    # The event is passed on.
    assert '"event": "paid"' in capsys.readouterr().out


def test_logger_factory(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    with Client(stub.address) as client:
        structlog.configure(
            processors=[structlog.contextvars.merge_contextvars],
            logger_factory=bucksaw.structlog.LoggerFactory(client),
        )
        log: Any = structlog.get_logger("shop")
        log.warning("slow", seconds=1.5)
        log.info("paid", level="unknown")
        log.msg("plain")
        structlog.get_logger().error("failed", exc_info=KeyError("k"))
        assert client.flush(TIMEOUT)
    slow, paid, plain, failed = ({**record, "time": None} for record in stub.records())
    assert slow == {"time": None, "message": "slow", "level": "warn", "logger.name": "shop", "seconds": 1.5}
    assert paid == {"time": None, "message": "paid", "level": "unknown", "logger.name": "shop"}
    assert plain["level"] == "info"
    assert failed["exception.type"] == "KeyError"
    assert "logger.name" not in failed
    assert capsys.readouterr().out == ""


def test_rendered_events(stub: Stub) -> None:
    with Client(stub.address) as client:
        structlog.configure(
            processors=[
                structlog.stdlib.add_log_level,
                structlog.processors.format_exc_info,
                structlog.processors.LogfmtRenderer(key_order=["event"]),
            ],
            logger_factory=bucksaw.structlog.LoggerFactory(client),
        )
        structlog.get_logger().info("paid", order=1)
        assert client.flush(TIMEOUT)
    (record,) = stub.records()
    assert (record["message"], record["level"]) == ("event=paid order=1 level=info", "info")


def test_rendered_exception(stub: Stub) -> None:
    with Client(stub.address) as client:
        process = bucksaw.structlog.Processor(client)
        event = {"event": "m", "exception": "Traceback", "exc_info": False, "stack_info": False, "_record": object()}
        assert process(None, "error", event) is event
        assert client.flush(TIMEOUT)
    (record,) = stub.records()
    assert {**record, "time": None} == {
        "time": None,
        "message": "m",
        "level": "error",
        "exception.stacktrace": "Traceback",
    }


def test_processor_behind_a_renderer(stub: Stub) -> None:
    with Client(stub.address) as client:
        assert bucksaw.structlog.Processor(client)(None, "info", "rendered") == "rendered"  # type: ignore[arg-type]
        assert client.flush(TIMEOUT)
    (record,) = stub.records()
    assert (record["message"], record["level"]) == ("rendered", "info")


def test_unknown_method(stub: Stub) -> None:
    with Client(stub.address) as client, pytest.raises(AttributeError):
        bucksaw.structlog.LoggerFactory(client)().whisper("m")
