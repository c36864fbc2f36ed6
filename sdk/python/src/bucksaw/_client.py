"""The client: what programs call."""

import atexit
import os
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Final

from bucksaw._answers import QUERY_TIME, Answer, Tail, Time, fetch_count, query_parameters
from bucksaw._buffer import Buffer, Stats
from bucksaw._connection import Access
from bucksaw._credentials import Credentials
from bucksaw._files import FileName
from bucksaw._levels import LEVEL_OF_NAME
from bucksaw._records import TooLargeError, encode, error_text
from bucksaw._reports import Failure, Reporter
from bucksaw._sender import Sender
from bucksaw._settings import Durability, Settings, WhenFull, parse_endpoints, parse_labels, quote
from bucksaw._tls import Tls

#: Seconds that closing waits for the end of the background thread, after it was told to end.
JOIN_TIME: Final = 1.0
#: Name of the attribute of a record whose attributes could not be read.
ENCODING_ERROR: Final = "bucksaw.error"
#: Seconds between two attempts to start the background thread.
START_INTERVAL: Final = 1.0


class Client:
    """Sends records to Bucksaw, and reads them back. All methods may be called by any thread.

    Making a client opens no connection and starts no thread; the first record does. A client closes itself at
    the end of the process. Times are in seconds.
    """

    def __init__(
        self,
        endpoints: str | Sequence[str] | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        durability: Durability = "durable",
        batch_bytes: int = 512 << 10,
        batch_records: int = 10_000,
        batch_age: float = 1.0,
        buffer_bytes: int = 32 << 20,
        when_full: WhenFull = "drop",
        block_time: float = 0.1,
        request_time: float = 30.0,
        close_time: float = 5.0,
        on_error: Callable[[Failure], object] | None = None,
        token: str | None = None,
        token_file: FileName | None = None,
        ca_file: FileName | None = None,
        certificate_file: FileName | None = None,
        key_file: FileName | None = None,
        insecure_token: bool = False,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """Makes a client.

        `endpoints` are the addresses of nodes, in the order in which they are tried: a list, or a text with
        commas. By default they are those of the environment variable `BUCKSAW_ADDR`, else `http://127.0.0.1:7650`.
        `labels` are those of all records. `on_error` gets failures, usually in the background thread; without
        it they are written to standard error, at most once a minute for each kind.

        `token` is sent with each request; `token_file` is read before each request. By default the token is that of
        the environment variable `BUCKSAW_TOKEN`. Over plain `http` it is sent to this machine only, unless
        `insecure_token` is set. `ca_file` has the CAs of `https` endpoints, by default those of the system;
        `certificate_file` and `key_file` are the certificate of the client. All are PEM files, and are read again
        when they change. `ssl_context` takes their place.

        Raises ValueError for an invalid setting.
        """
        tls = Tls(ssl_context, ca_file, certificate_file, key_file)
        parsed = parse_endpoints(endpoints, tls.has_files())
        credentials = Credentials(token, token_file)
        if not insecure_token:
            credentials.check_secrecy(parsed)
        if any(endpoint.tls for endpoint in parsed):
            tls.load()
        self._access = Access(tls, credentials)
        self._settings = Settings(
            endpoints=parsed,
            labels=parse_labels(labels),
            durability=durability,
            batch_bytes=batch_bytes,
            batch_records=batch_records,
            batch_age=batch_age,
            buffer_bytes=buffer_bytes,
            when_full=when_full,
            block_time=block_time,
            request_time=request_time,
            close_time=close_time,
        )
        self._reporter = Reporter(on_error)
        self._buffer = Buffer(self._settings)
        self._closed = threading.Event()
        #: The thread of the first call of `close`, and its answer.
        self._closer: threading.Thread | None = None
        self._complete = False
        self._reset_thread()
        _clients[id(self)] = self
        atexit.register(self.close)

    # Writing.

    def log(
        self,
        message: object,
        level: str | None = None,
        attributes: Mapping[str, object] | Iterable[tuple[object, object]] = (),
        *,
        time_ns: int | None = None,
    ) -> None:
        """Logs a record. Encodes it and adds it to the buffer; the background thread sends it.

        `level` is `trace`, `debug`, `info`, `warn`, `error` or `fatal`, or a name of the module `logging`; others
        are left out. `time_ns` is in nanoseconds since 1970, by default now.

        Never raises, and waits only for a full buffer with `when_full="block"`, at most `block_time`.
        """
        if time_ns is None:
            time_ns = time.time_ns()
        name = None
        try:
            name = LEVEL_OF_NAME.get(level.lower()) if isinstance(level, str) else None
            pairs = attributes.items() if isinstance(attributes, Mapping) else attributes
        except Exception as error:
            # A mapping of the program.
            pairs = [(ENCODING_ERROR, error_text(error))]
        self._submit(time_ns, message, name, pairs)

    def flush(self, timeout: float | None = None) -> bool:
        """Sends at once, and waits until all records that were logged before are acknowledged or dropped.

        Waits for at most `timeout`, by default `close_time`. Says whether the time sufficed. Call it from asyncio
        as `await asyncio.to_thread(client.flush)`.
        """
        if self._buffer.is_interrupted() or self._thread is threading.current_thread():
            return False
        if self._thread is None and self._buffer.stats().buffered_records:
            self._start_thread()
        return self._buffer.flush(self._settings.close_time if timeout is None else min(timeout, threading.TIMEOUT_MAX))

    def close(self) -> bool:
        """Flushes with `close_time`, drops and counts what is not acknowledged then, and ends the background thread.

        Says whether everything was acknowledged or dropped before. Takes at most a second longer than `close_time`.
        Records that are logged from now on are dropped and counted. Further calls wait for the first one.
        """
        if self._buffer.is_interrupted():
            # A signal handler in the middle of a call. The end of the process closes the client.
            return False
        if not self._buffer.begin_closing():
            # `on_error` and signal handlers may run in the middle of the first call.
            if threading.current_thread() not in (self._closer, self._thread):
                self._closed.wait(self._settings.close_time + JOIN_TIME)
            return self._complete
        self._closer = threading.current_thread()
        try:
            self._close()
            return self._complete
        finally:
            self._closed.set()
            _clients.pop(id(self), None)
            atexit.unregister(self.close)

    def stats(self) -> Stats:
        """Returns the counters, all of one moment."""
        return self._buffer.stats()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # A program without asyncio does not pay for its import.
        import asyncio

        # Closing waits for the network, so a thread does it.
        await asyncio.to_thread(self.close)

    # Reading.

    def query(
        self,
        expr: str = "",
        *,
        from_: Time | None = None,
        to: Time | None = None,
        limit: int | None = None,
        newest_first: bool = False,
        time_zone: str | None = None,
        allow_partial: bool = False,
        timeout: float = QUERY_TIME,
    ) -> Answer:
        """Returns the records that match an expression, as an iterator.

        `from_` and `to` are times, or texts as in docs/times.md: `15m`, `yesterday 10:30`. By default they are an
        hour ago, and now. `time_zone` is that of texts without one, by default UTC. `timeout` is the longest time
        without data. The node itself limits the whole time of a query.
        """
        parameters = query_parameters(expr, from_, to, time_zone)
        if limit is not None:
            parameters += f"&limit={limit}"
        if newest_first:
            parameters += "&order=desc"
        return Answer(self._settings, self._access, f"/api/v1/query?{parameters}", timeout, allow_partial)

    def count(
        self,
        expr: str = "",
        *,
        from_: Time | None = None,
        to: Time | None = None,
        time_zone: str | None = None,
        allow_partial: bool = False,
        timeout: float = QUERY_TIME,
    ) -> int:
        """Returns the exact number of records that match an expression. Parameters and errors as for `query`."""
        parameters = query_parameters(expr, from_, to, time_zone)
        return fetch_count(self._settings, self._access, f"/api/v1/count?{parameters}", timeout, allow_partial)

    def tail(self, expr: str = "", *, rate: int | None = None, timeout: float = QUERY_TIME) -> Tail:
        """Returns records that match an expression as nodes accept them, and notices, as an iterator without end.

        `rate` limits the records per second; a notice has the number of skipped ones. `timeout` is that of the
        start.
        """
        limit = "" if rate is None else f"&rate={rate}"
        return Tail(self._settings, self._access, f"/api/v1/tail?q={quote(expr)}{limit}", timeout)

    # Internals.

    def _submit(
        self, time_ns: int, message: object, level: str | None, attributes: Iterable[tuple[object, object]]
    ) -> None:
        """Encodes a record and adds it to the buffer. Never raises."""
        try:
            line = encode(time_ns, message, level, attributes)
        except Exception as error:
            self._submit_without_attributes(time_ns, message, level, error)
        else:
            self._buffer.add(line, self._thread is not threading.current_thread())
        if self._thread is None:
            self._start_thread()

    def _submit_without_attributes(self, time_ns: int, message: object, level: str | None, error: Exception) -> None:
        if isinstance(error, TooLargeError):
            self._buffer.drop("too_large")
            return
        # Reading the attributes failed: another thread may change them.
        try:
            line = encode(time_ns, message, level, [(ENCODING_ERROR, error_text(error))])
        except Exception:
            self._buffer.drop("too_large")
        else:
            self._buffer.add(line, False)

    def _reset_thread(self) -> None:
        self._thread: threading.Thread | None = None
        self._sender: Sender | None = None
        self._thread_lock = threading.Lock()
        self._next_start = 0.0

    def _start_thread(self) -> None:
        # Not waiting: whoever has the lock starts the thread.
        if time.monotonic() < self._next_start or not self._thread_lock.acquire(blocking=False):
            return
        try:
            if self._thread is None and not self._closed.is_set():
                self._sender = Sender(self._settings, self._access, self._buffer, self._reporter)
                thread = threading.Thread(target=self._run, args=(self._sender,), name="bucksaw", daemon=True)
                self._thread = thread
                _close_with_multiprocessing(self)
                thread.start()
        except (RuntimeError, MemoryError):
            # No thread can be started, for example at the end of the process. Closing sends in its own thread.
            self._next_start = time.monotonic() + START_INTERVAL
        finally:
            # Also after an exception of a signal handler.
            if self._thread is not None and self._thread.ident is None:
                self._thread = self._sender = None
            self._thread_lock.release()

    def _run(self, sender: Sender) -> None:
        try:
            sender.run()
        finally:
            # After an exception that ends threads, the next record starts another one.
            if self._sender is sender and not self._closed.is_set():
                self._thread = None

    def _close(self) -> None:
        thread = self._thread
        try:
            if thread is threading.current_thread():
                # Called by `on_error`: the thread cannot wait for itself.
                pass
            elif thread is not None and thread.is_alive():
                self._complete = self._buffer.flush(self._settings.close_time)
            else:
                self._complete = self._send_here()
        finally:
            # Also if Ctrl-C ends the wait.
            self._buffer.stop()
            if self._sender is not None:
                self._sender.abort()
        if thread is not None and thread is not threading.current_thread():
            thread.join(JOIN_TIME)
        for failure in self._buffer.take_failures(now=True):
            self._reporter.report(failure)

    def _send_here(self) -> bool:
        """Sends what is in the buffer in the thread of the caller. Says whether the close time sufficed."""
        deadline = time.monotonic() + self._settings.close_time
        Sender(self._settings, self._access, self._buffer, self._reporter, deadline).run()
        return self._buffer.stats().buffered_records == 0

    def _after_fork(self) -> None:
        if self._sender is not None:
            self._sender.forget_connection()
        self._closed = threading.Event()
        self._closer = None
        self._complete = False
        self._reporter.after_fork()
        self._buffer.after_fork()
        self._reset_thread()


#: Open clients by id.
_clients: dict[int, Client] = {}


def _after_fork_in_child() -> None:
    for client in list(_clients.values()):
        client._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def _close_with_multiprocessing(client: Client) -> None:
    """Closes the client at the end of a process of `multiprocessing`, which does not run the functions of `atexit`."""
    if "multiprocessing" not in sys.modules:
        return
    from multiprocessing import parent_process, util

    if parent_process() is not None:
        util.Finalize(None, client.close, exitpriority=-100)
