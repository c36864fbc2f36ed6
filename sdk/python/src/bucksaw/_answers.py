"""Answers to queries, read record by record."""

import contextlib
import datetime
import http.client
from collections import deque
from collections.abc import AsyncIterator, Generator, Iterator
from types import TracebackType
from typing import Final, Generic, TypeVar

from bucksaw._connection import ANSWER_BYTES_MAX, Access, Connection, read_parts
from bucksaw._decoder import AnswerStats, Item, Notice, Record, decode, parse_object, parse_stats
from bucksaw._outcomes import RETRY_STATUSES, error_of
from bucksaw._settings import Settings, quote
from bucksaw._tls import describe_failure
from bucksaw.errors import (
    Error,
    IncompleteAnswerError,
    InvalidAnswerError,
    PartialAnswerError,
    RefusedError,
    UnreachableError,
)

#: A time in a query, or a text such as `15m`. A time without a zone is local.
Time = datetime.datetime | str

#: Seconds without data after which a query counts as failed. Nodes end queries after 60 s by default.
QUERY_TIME: Final = 120.0

#: Failures of a connection. An answer that is no HTTP may also raise ValueError.
BROKEN: Final = (OSError, http.client.HTTPException, ValueError)

ItemT = TypeVar("ItemT", Record, Record | Notice)
StreamT = TypeVar("StreamT", bound="_Stream[Record] | _Stream[Record | Notice]")


class _Stream(Generic[ItemT]):
    def __init__(self, settings: Settings, access: Access, target: str, timeout: float, idle: float | None) -> None:
        self._settings = settings
        self._access = access
        self._target = target
        self._timeout = timeout
        self._idle = idle
        self._connection: Connection | None = None
        self._closed = False
        self._items: deque[ItemT] = deque()
        self._batches: Generator[list[ItemT], None, None] = self._read()

    def close(self) -> None:
        """Ends the answer and cancels it at the node. Another thread may be reading it. Does not block."""
        self._closed = True
        self._items.clear()
        connection = self._connection
        if connection is not None:
            connection.abort()
        # Fails while another thread reads. The abort ends that, and then the reading closes the connection.
        with contextlib.suppress(ValueError):
            self._batches.close()

    def __enter__(self: StreamT) -> StreamT:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[ItemT]:
        return self

    def __next__(self) -> ItemT:
        while not self._items:
            self._items.extend(next(self._batches))
        return self._items.popleft()

    async def __aenter__(self: StreamT) -> StreamT:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __aiter__(self) -> AsyncIterator[ItemT]:
        return self

    async def __anext__(self) -> ItemT:
        # A program without asyncio does not pay for its import.
        import asyncio

        while not self._items:
            # A thread waits for the network, once for all records that arrive together.
            items = await asyncio.to_thread(next, self._batches, None)
            if items is None:
                raise StopAsyncIteration
            self._items.extend(items)
        return self._items.popleft()

    def _read(self) -> Generator[list[ItemT], None, None]:
        try:
            connection, response = _open(self, self._settings, self._access, self._target, self._timeout)
            with contextlib.closing(connection), response:
                connection.limit(None, self._idle)
                for items in decode(read_parts(response)):
                    if accepted := self._accept(items):
                        yield accepted
            self._end()
        except BROKEN as error:
            if not self._closed:
                raise IncompleteAnswerError(f"the answer broke off: {describe_failure(error)}") from error
        except Error:
            if not self._closed:
                raise

    def _accept(self, items: list[Item]) -> list[ItemT]:
        """Returns the items that the reader gets."""
        raise NotImplementedError

    def _end(self) -> None:
        """Called after the last item of a complete answer."""
        raise NotImplementedError


class Answer(_Stream[Record]):
    """The records of a query, as they arrive: an iterator, an asynchronous iterator, and a context manager.

    The request is sent when the first record is read. Leaving the context, or `close`, cancels the query.

    Reading raises an `Error` of `bucksaw.errors`: UnreachableError and RefusedError before the first record,
    IncompleteAnswerError, InvalidAnswerError and PartialAnswerError after the last one.
    """

    def __init__(self, settings: Settings, access: Access, target: str, timeout: float, allow_partial: bool) -> None:
        super().__init__(settings, access, target, timeout, timeout)
        self._allow_partial = allow_partial
        #: Statistics, `None` before the last record was read.
        self.stats: AnswerStats | None = None

    def _accept(self, items: list[Item]) -> list[Record]:
        if isinstance(items[-1], AnswerStats):
            self.stats = items[-1]
        return [item for item in items if isinstance(item, Record)]

    def _end(self) -> None:
        if self.stats is not None and self.stats.partial and not self._allow_partial:
            raise PartialAnswerError(self.stats)


class Tail(_Stream[Record | Notice]):
    """Records as nodes accept them, and notices. Like an `Answer` otherwise.

    It has no end of its own: if the node ends it, reading raises IncompleteAnswerError.
    """

    def __init__(self, settings: Settings, access: Access, target: str, timeout: float) -> None:
        # No time without data is too long.
        super().__init__(settings, access, target, timeout, None)

    def _accept(self, items: list[Item]) -> list[Record | Notice]:
        return [item for item in items if isinstance(item, (Record, Notice))]

    def _end(self) -> None:
        raise InvalidAnswerError("a tail has no statistics")


def fetch_count(settings: Settings, access: Access, target: str, timeout: float, allow_partial: bool) -> int:
    """Returns the count of an answer."""
    connection, response = _open(None, settings, access, target, timeout)
    with contextlib.closing(connection), response:
        try:
            body = b"".join(read_parts(response, ANSWER_BYTES_MAX))
        except BROKEN as error:
            raise IncompleteAnswerError(f"the answer broke off: {describe_failure(error)}") from error
    answer = parse_object(body)
    count, stats = answer.get("count"), parse_stats(answer.get("stats"))
    if type(count) is not int:
        raise InvalidAnswerError("the answer has no count")
    if stats.partial and not allow_partial:
        raise PartialAnswerError(stats, count)
    return count


def query_parameters(expr: str, from_: Time | None, to: Time | None, time_zone: str | None) -> str:
    """Returns the parameters that queries and counts have."""
    parameters = {"q": expr, "from": _time_text(from_), "to": _time_text(to), "tz": time_zone}
    return "&".join(f"{name}={quote(value)}" for name, value in parameters.items() if value is not None)


def _time_text(time: Time | None) -> str | None:
    if isinstance(time, datetime.datetime):
        return time.astimezone(datetime.timezone.utc).replace(tzinfo=None).isoformat() + "Z"
    return time


def _open(
    stream: "_Stream[Record] | _Stream[Record | Notice] | None",
    settings: Settings,
    access: Access,
    target: str,
    timeout: float,
) -> tuple[Connection, http.client.HTTPResponse]:
    """Sends a request to the first endpoint that answers it."""
    failures = []
    refused = None
    for endpoint in settings.endpoints:
        connection = Connection(endpoint, access)
        connection.limit(timeout, None)
        if stream is not None:
            stream._connection = connection
            if stream._closed:
                connection.abort()
        try:
            connection.ask("GET", endpoint.path + target, None, {"Accept": "application/x-ndjson"})
            response = connection.getresponse()
            if response.status == 200:
                return connection, response
            with response:
                body = b"".join(read_parts(response, ANSWER_BYTES_MAX))
        except BROKEN as error:
            connection.close()
            failures.append(f"{endpoint}: {describe_failure(error)}{access.problems()}")
            continue
        except BaseException:
            connection.close()
            raise
        connection.close()
        refused = RefusedError(response.status, error_of(response.status, body) + access.problems())
        if response.status not in RETRY_STATUSES:
            break
        failures.append(f"{endpoint}: {refused}")
    raise refused or UnreachableError("; ".join(failures))
