"""The handler for the module `logging`, against the real program where records are read back."""

import io
import logging
import logging.config
import logging.handlers
import queue
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import bucksaw
from bucksaw import Client, Record
from tests.node import Node
from tests.stub import TIMEOUT, Stub


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("shop.orders")
    logger.setLevel(1)
    logger.propagate = False
    yield logger
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        handler.close()


def records(client: Client) -> list[Record]:
    assert client.flush(TIMEOUT)
    with client.query() as answer:
        return list(answer)


def test_logging(node: Node, logger: logging.Logger) -> None:
    handler = bucksaw.Handler(endpoints=node.address, labels={"service.name": "shop"})
    logger.addHandler(handler)
    logger.info("order %d of %s", 4711, "u7", extra={"order": 4711, "user": {"id": "u7"}})
    logger.log(5, "fine")
    logger.log(25, "notice")
    logger.critical("broken")
    try:
        raise ValueError("no money")
    except ValueError:
        logger.exception("payment failed", stack_info=True)
    first, fine, notice, broken, failed = records(handler.client)
    assert first.text == "order 4711 of u7"
    assert first.labels == {"service.name": "shop"}
    assert first.attributes == {
        "level": "info",
        "logger.name": "shop.orders",
        "thread.name": "MainThread",
        "order": "4711",
        "user.id": "u7",
    }
    assert [record.attributes["level"] for record in (fine, notice, broken)] == ["trace", "info", "fatal"]
    assert failed.text == "payment failed"
    assert failed.attributes["level"] == "error"
    assert failed.attributes["exception.type"] == "ValueError"
    assert failed.attributes["exception.message"] == "no money"
    stacktrace = failed.attributes["exception.stacktrace"]
    assert stacktrace.startswith("Traceback")
    assert stacktrace.endswith("ValueError: no money")
    assert 'logger.exception("payment failed"' in failed.attributes["code.stacktrace"]
    assert [record.time for record in (first, fine, notice, broken, failed)] == sorted(
        record.time for record in (first, fine, notice, broken, failed)
    )


def test_dict_config(stub: Stub) -> None:
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"short": {"format": "<%(message)s>"}},
            "handlers": {
                "plain": {
                    "class": "bucksaw.Handler",
                    "level": "INFO",
                    "formatter": "short",
                    "endpoints": [stub.address],
                    "labels": {"service.name": "shop"},
                    "durability": "fast",
                },
                "formatted": {
                    "class": "bucksaw.Handler",
                    "formatter": "short",
                    "use_formatter": True,
                    "endpoints": stub.address,
                },
            },
            "loggers": {"configured": {"level": "DEBUG", "handlers": ["plain", "formatted"], "propagate": False}},
        }
    )
    logger = logging.getLogger("configured")
    logger.debug("a")
    logger.info("b")
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        handler.close()
    assert sorted(record["message"] for record in stub.records()) == ["<a>", "<b>", "b"]
    assert any("durability=fast&" in request.target for request in stub.requests)


def test_queue_handler(stub: Stub, logger: logging.Logger) -> None:
    """A QueueHandler changes the record: texts instead of arguments and exceptions."""
    handler = bucksaw.Handler(endpoints=stub.address)
    records: queue.Queue[Any] = queue.Queue()
    listener = logging.handlers.QueueListener(records, handler)
    listener.start()
    logger.addHandler(logging.handlers.QueueHandler(records))

    def log() -> None:
        logger.info("order %d", 4711, extra={"order": 4711})
        try:
            raise ValueError("no money")
        except ValueError:
            logger.exception("failed")

    thread = threading.Thread(target=log, name="worker")
    thread.start()
    thread.join(TIMEOUT)
    listener.stop()
    handler.close()
    order, failed = stub.records()
    assert {**order, "time": None} == {
        "time": None,
        "message": "order 4711",
        "level": "info",
        "logger.name": "shop.orders",
        "thread.name": "worker",
        "order": 4711,
    }
    assert failed["message"].startswith("failed\nTraceback")


def test_record_that_another_handler_has_changed(stub: Stub, logger: logging.Logger) -> None:
    text = logging.StreamHandler(io.StringIO())
    text.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger.addHandler(text)
    handler = bucksaw.Handler(endpoints=stub.address)
    logger.addHandler(handler)
    try:
        raise KeyError("k")
    except KeyError:
        logger.exception("m")
    handler.close()
    (record,) = stub.records()
    assert set(record) == {
        "time",
        "message",
        "level",
        "logger.name",
        "thread.name",
        "exception.type",
        "exception.message",
        "exception.stacktrace",
    }
    assert record["message"] == "m"


def test_text_of_an_exception_without_the_exception(stub: Stub) -> None:
    """Records of other processes have only the text."""
    handler = bucksaw.Handler(endpoints=stub.address)
    handler.handle(logging.makeLogRecord({"msg": "m", "exc_text": "Traceback", "exc_info": None}))
    handler.handle(logging.makeLogRecord({"msg": "m", "exc_info": (None, None, None)}))
    handler.close()
    assert [record.get("exception.stacktrace") for record in stub.records()] == ["Traceback", None]


def test_names_of_exceptions(stub: Stub, logger: logging.Logger) -> None:
    class WorseError(bucksaw.Error):
        def __str__(self) -> str:
            raise RuntimeError

    handler = bucksaw.Handler(endpoints=stub.address)
    logger.addHandler(handler)
    logger.error("a", exc_info=bucksaw.UnreachableError("x"))
    logger.error("b", exc_info=WorseError())
    logger.error("c", exc_info=True)
    handler.close()
    a, b, c = stub.records()
    assert a["exception.type"] == "bucksaw.errors.UnreachableError"
    assert b["exception.type"].endswith("test_names_of_exceptions.<locals>.WorseError")
    assert b["exception.message"] == "!ERROR: RuntimeError"
    assert "exception.type" not in c


def test_bad_calls_do_not_raise(stub: Stub, logger: logging.Logger) -> None:
    handler = bucksaw.Handler(endpoints=stub.address)
    logger.addHandler(handler)
    logger.info("%d items", "three")
    logger.info(["not", "text"])
    logger.info("ok", extra={"time": 1, "level": 2, "message_": 3})
    handler.close()
    wrong, no_text, ok = stub.records()
    assert wrong["message"].startswith("!ERROR: TypeError: ")
    assert wrong["message"].endswith(": %d items")
    assert no_text["message"] == "['not', 'text']"
    assert ok["level"] == "info"
    assert (ok["time_"], ok["level_"], ok["message_"]) == (1, 2, 3)


def test_filters_and_adapters(stub: Stub, logger: logging.Logger) -> None:
    handler = bucksaw.Handler(endpoints=stub.address, level="WARNING")
    handler.addFilter(lambda record: "secret" not in record.getMessage())
    logger.addHandler(handler)
    adapter = logging.LoggerAdapter(logger, {"request": "r1"})
    adapter.info("too low")
    adapter.warning("secret")
    adapter.warning("shown")
    handler.close()
    (record,) = stub.records()
    assert (record["message"], record["request"]) == ("shown", "r1")


def test_shared_client(stub: Stub, logger: logging.Logger) -> None:
    with Client(stub.address) as client:
        handler = bucksaw.Handler(client)
        logger.addHandler(handler)
        logger.info("a")
        logger.removeHandler(handler)
        handler.close()
        # The client is not closed, but flushed.
        assert client.stats().acknowledged == 1
        client.log("b")
    assert [record["message"] for record in stub.records()] == ["a", "b"]
    with pytest.raises(ValueError, match="either a client or settings"):
        bucksaw.Handler(client, endpoints=stub.address)
    with pytest.raises(ValueError, match="Unknown level"):
        bucksaw.Handler(endpoints=stub.address, level="LOUD")


def test_standard_module_is_not_shadowed() -> None:
    assert not hasattr(bucksaw, "logging") or bucksaw.logging is logging
    assert "bucksaw.logging" not in sys.modules
