"""Sends events of structlog to Bucksaw. Needs no import of structlog itself.

Two ways. A `Processor` in the chain sends each event and passes it on, so that a renderer after it may print it.
Loggers of a `LoggerFactory` send what the last processor returns, and nothing is printed.
"""

import sys
import time
from collections.abc import Callable, Mapping, MutableMapping
from types import TracebackType
from typing import Any, Final

from bucksaw._client import Client
from bucksaw._exceptions import CALL_STACKTRACE, STACKTRACE, exception_attributes
from bucksaw._levels import LEVEL_OF_NAME

#: Members of an event with a name of their own in records.
_NAMES: Final = {"logger": "logger.name", "thread_name": "thread.name", "stack": CALL_STACKTRACE}

#: Members of an event that are no attributes. The last two are those of structlog's `ProcessorFormatter`.
_LEFT_OUT: Final = frozenset({"event", "stack_info", "_record", "_from_structlog"})


class Processor:
    """A processor that sends events and returns them unchanged.

    Put it behind the processors that add to the event, and before those that render it. `event` is the message,
    all other members are attributes. `exc_info` becomes the attributes of an exception.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def __call__(self, logger: object, method_name: str, event_dict: MutableMapping[str, Any]) -> Any:
        """Sends one event."""
        _send(self._client, method_name, event_dict)
        return event_dict


class Logger:
    """A logger that sends what the last processor returns: the members of an event, or its text."""

    def __init__(self, client: Client, name: str | None) -> None:
        self._client = client
        self.name = name

    def msg(self, event: object = "", **members: object) -> None:
        """Sends an event without a level, but that of its member `level`."""
        self._send("msg", event, members)

    log = msg

    def __getattr__(self, method_name: str) -> Callable[..., None]:
        if method_name.lower() not in LEVEL_OF_NAME:
            raise AttributeError(method_name)

        def method(event: object = "", **members: object) -> None:
            self._send(method_name, event, members)

        return method

    def _send(self, method_name: str, event: object, members: dict[str, object]) -> None:
        if self.name is not None:
            members.setdefault("logger", self.name)
        _send(self._client, method_name, {"event": event, **members})


class LoggerFactory:
    """Makes loggers for `structlog.configure(logger_factory=…)`. The first argument of `get_logger` is the name."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __call__(self, *args: object) -> Logger:
        """Makes a logger."""
        return Logger(self._client, args[0] if args and isinstance(args[0], str) else None)


def _send(client: Client, method_name: str, event: object) -> None:
    if not isinstance(event, Mapping):
        # The output of a renderer.
        event = {"event": event}
    level = event.get("level", method_name)
    name = LEVEL_OF_NAME.get(level.lower()) if isinstance(level, str) else None
    attributes: list[tuple[object, object]] = []
    for key, value in event.items():
        if key == "exc_info":
            attributes += exception_attributes(_exc_info(value))
        elif key == "exception" and isinstance(value, str):
            attributes.append((STACKTRACE, value))
        elif key in _LEFT_OUT or (key == "level" and name is not None):
            continue
        else:
            attributes.append((_NAMES.get(key, key), value))
    client._submit(time.time_ns(), event.get("event", ""), name, attributes)


def _exc_info(
    value: object,
) -> tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None] | None:
    if isinstance(value, BaseException):
        return type(value), value, value.__traceback__
    if isinstance(value, tuple) and len(value) == 3:
        return value
    return sys.exc_info() if value else None
