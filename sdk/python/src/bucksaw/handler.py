"""A handler for the module `logging`."""

import logging
from typing import Any, Final

from bucksaw._client import Client
from bucksaw._exceptions import CALL_STACKTRACE, STACKTRACE, exception_attributes
from bucksaw._levels import level_of_number
from bucksaw._records import error_text, to_text

#: The first members of every record of `logging`, in their order.
_FIRST_MEMBERS: Final = list(logging.LogRecord("", logging.INFO, "", 0, "", (), None).__dict__)
#: Members of records. All other members are those of `extra`.
_OWN_MEMBERS: Final = frozenset(_FIRST_MEMBERS) | {"message", "asctime", "taskName"}


class Handler(logging.Handler):
    """Sends records of `logging` to Bucksaw.

    The members of `extra` become attributes; the names of the logger and of the thread are `logger.name` and
    `thread.name`, an exception is `exception.type`, `exception.message` and `exception.stacktrace`, and the stack
    of `stack_info` is `code.stacktrace`. The message is that of the call.
    """

    def __init__(
        self,
        client: Client | None = None,
        level: int | str = logging.NOTSET,
        *,
        use_formatter: bool = False,
        **settings: Any,
    ) -> None:
        """Makes a handler for a client, or for a client of its own, with the settings of `Client`.

        `close` closes a client of its own. With `use_formatter`, the message is the output of the formatter.
        Without it the formatter is ignored, because `logging.basicConfig` gives one to each handler.
        """
        if client is not None and settings:
            raise ValueError("a handler has either a client or settings")
        self._owns_client = client is None
        self._use_formatter = use_formatter
        #: The client, for `stats`.
        self.client = Client(**settings) if client is None else client
        try:
            super().__init__(level)
        except Exception:
            if self._owns_client:
                self.client.close()
            raise

    def handle(self, record: logging.LogRecord) -> bool:
        """Filters and emits a record. Without the lock of the handler: the client has its own."""
        kept: object = self.filter(record)
        if isinstance(kept, logging.LogRecord):
            # Since Python 3.12, a filter may replace the record.
            record = kept
        if kept:
            self.emit(record)
        return bool(kept)

    def emit(self, record: logging.LogRecord) -> None:
        """Adds a record to the buffer of the client. Never raises."""
        try:
            time_ns = int(record.created * 1e9)
            message = self._message(record)
            # A record that `logging.makeLogRecord` made may have none.
            level = None if record.levelno is None else level_of_number(record.levelno)
            attributes = _attributes(record)
        except Exception:
            # The program has changed members of the record.
            self.handleError(record)
            return
        self.client._submit(time_ns, message, level, attributes)

    def flush(self) -> None:
        """Flushes the client; takes at most its `close_time`."""
        self.client.flush()

    def close(self) -> None:
        """Closes a client of its own, and flushes another one. Takes at most as long as `Client.close`."""
        super().close()
        if self._owns_client:
            self.client.close()
        else:
            self.client.flush()

    def _message(self, record: logging.LogRecord) -> object:
        if not (self._use_formatter or record.args):
            return record.msg
        try:
            return self.format(record) if self._use_formatter else record.getMessage()
        except Exception as error:
            # The arguments do not fit. What was logged is still of use.
            return f"{error_text(error)}: {to_text(record.msg)}"


def _attributes(record: logging.LogRecord) -> list[tuple[object, object]]:
    attributes: list[tuple[object, object]] = [("logger.name", record.name), ("thread.name", record.threadName)]
    members = record.__dict__
    names = list(members)
    if names[: len(_FIRST_MEMBERS)] == _FIRST_MEMBERS:
        # Usually the others stand behind them, so only these are looked up.
        del names[: len(_FIRST_MEMBERS)]
    attributes += [(name, members[name]) for name in names if name not in _OWN_MEMBERS]
    if record.exc_info:
        attributes += exception_attributes(record.exc_info)
    elif record.exc_text:
        # A QueueHandler may have made the text.
        attributes.append((STACKTRACE, record.exc_text))
    if record.stack_info:
        attributes.append((CALL_STACKTRACE, record.stack_info))
    return attributes
