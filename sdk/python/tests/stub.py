"""A server in the place of a node, which answers as a test tells it."""

import gzip
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

TIMEOUT = 30.0


@dataclass
class Request:
    """A request that the stub has got."""

    method: str
    target: str
    headers: Mapping[str, str]
    raw_body: bytes
    connection: int

    @property
    def body(self) -> bytes:
        if self.headers.get("content-encoding") == "gzip":
            return gzip.decompress(self.raw_body)
        return self.raw_body

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.body.splitlines()]

    @property
    def key(self) -> str:
        return self.headers["idempotency-key"]


@dataclass
class Reply:
    """An answer. `parts` are sent one after the other."""

    status: int = 200
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    parts: Iterator[bytes] | None = None
    #: Close the connection after the answer.
    close: bool = False


#: Closes the connection without an answer.
HANG_UP = Reply(status=0)


def accept(request: Request) -> Reply:
    """The answer of a node that stores all records."""
    return Reply(body=json.dumps({"accepted": len(request.records), "rejected": 0}).encode())


class Stub:
    """An HTTP server with one thread per connection. `answer` makes the answers; it may block."""

    def __init__(
        self, answer: Callable[[Request], Reply] = accept, tls: Callable[[socket.socket], socket.socket] | None = None
    ) -> None:
        self.answer = answer
        self.requests: list[Request] = []
        self._changed = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._tls = tls
        self.address = f"{'https' if tls else 'http'}://127.0.0.1:{self._listener.getsockname()[1]}"
        self._connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.connections = 0

    def script(self, *replies: Reply | Callable[[Request], Reply]) -> None:
        """Answers the next requests with these, and accepts all later ones."""
        left = list(replies)

        def answer(request: Request) -> Reply:
            reply = left.pop(0) if left else accept
            return reply if isinstance(reply, Reply) else reply(request)

        self.answer = answer

    def wait_for(self, count: int) -> list[Request]:
        """Waits until the stub has got this number of requests."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.requests) >= count, TIMEOUT), self.requests
            return list(self.requests)

    def records(self) -> list[dict[str, Any]]:
        """The records of all requests with batches, one batch per key."""
        with self._changed:
            batches = {request.key: request for request in self.requests if request.method == "POST"}
        return [record for batch in batches.values() for record in batch.records]

    def disconnect(self) -> None:
        """Closes all connections."""
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                self._connections.append(connection)
                thread = threading.Thread(target=self._serve_connection, args=(connection, self.connections))
                self._threads.append(thread)
                thread.start()

    def _serve_connection(self, connection: socket.socket, number: int) -> None:
        with suppress(OSError, ValueError):
            self._answer_requests(self._tls(connection) if self._tls else connection, number)

    def _answer_requests(self, connection: socket.socket, number: int) -> None:
        with connection, connection.makefile("rb") as reader:
            while (request := _read(reader, number)) is not None:
                with self._changed:
                    self.requests.append(request)
                    self._changed.notify_all()
                reply = self.answer(request)
                if reply is HANG_UP:
                    return
                _write(connection, reply)
                if reply.close:
                    return

    def __enter__(self) -> "Stub":
        self._threads.append(threading.Thread(target=self._serve))
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.disconnect()
        for thread in list(self._threads):
            thread.join(TIMEOUT)
            assert not thread.is_alive()


def _read(reader: Any, number: int) -> Request | None:
    first = reader.readline().decode().split()
    if len(first) != 3:
        return None
    headers = {}
    while line := reader.readline().decode().strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    length = int(headers.get("content-length", 0))
    body = reader.read(length)
    return Request(first[0], first[1], headers, body, number) if len(body) == length else None


def _write(connection: socket.socket, reply: Reply) -> None:
    headers = {"Content-Type": "application/json", **reply.headers}
    body = reply.body or b""
    if reply.parts is None and "Content-Length" not in headers and "Transfer-Encoding" not in headers:
        headers["Content-Length"] = str(len(body))
    head = f"HTTP/1.1 {reply.status} Status\r\n" + "".join(f"{name}: {text}\r\n" for name, text in headers.items())
    connection.sendall(head.encode() + b"\r\n" + body)
    for part in reply.parts or ():
        connection.sendall(part)
