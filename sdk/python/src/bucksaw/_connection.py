"""One HTTP connection to a node, with a limit of time for each request.

The time-outs of sockets apply to single calls: an answer that comes byte by byte would take for ever. So every
call to the socket gets the time that is left. Another thread can end a call at any time by `abort`.
"""

import contextlib
import http.client
import io
import math
import os
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bucksaw._credentials import Credentials
from bucksaw._settings import Endpoint
from bucksaw._tls import Tls

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

#: Bytes of an answer to a batch, or of an error.
ANSWER_BYTES_MAX: Final = 1 << 20
#: Bytes of an answer that are read at once.
PART_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Access:
    """What a client trusts, and what it identifies itself with."""

    tls: Tls
    credentials: Credentials

    def problems(self) -> str:
        """Returns what is wrong with changed files, for the end of a report: it may be the cause."""
        problems = [problem for problem in (self.credentials.problem, self.tls.problem) if problem]
        return f" (a changed file cannot be used: {'; '.join(problems)})" if problems else ""


class Connection(http.client.HTTPConnection):
    """Connection to one endpoint. Connects when a request is sent."""

    #: Not that of the base class, which a program may raise: then the headers are printed, with the token.
    debuglevel = 0

    def __init__(self, endpoint: Endpoint, access: Access) -> None:
        super().__init__(endpoint.host, endpoint.port or (443 if endpoint.tls else 80))
        self.endpoint = endpoint
        self._credentials = access.credentials
        self._context = access.tls.context() if endpoint.tls else None
        #: Time of `time.monotonic` after which calls fail.
        self._deadline: float | None = None
        #: Seconds after which one call fails.
        self._idle: float | None = None
        self._aborted = False
        #: The socket, also while a response has it.
        self._last_socket: socket.socket | None = None
        if endpoint.tls:
            # The header `Host` leaves out this port.
            self.default_port = 443

    def limit(self, total: float | None, idle: float | None) -> None:
        """Sets the seconds that all calls from now on may take together, and each of them."""
        self._deadline = None if total is None else time.monotonic() + total
        self._idle = idle

    def abort(self) -> None:
        """Ends calls of other threads with an error, now and later. The owner still has to close the connection."""
        self._aborted = True
        sock = self._last_socket
        if sock is not None:
            _shut_down(sock)

    def forget(self) -> None:
        """Closes the descriptor in a child process, without a word to the node: the connection is the parent's.

        Does not touch the readers, because a thread of the parent may have had their locks.
        """
        sock = self._last_socket
        descriptor = -1 if sock is None else sock.detach()
        if descriptor >= 0:
            os.close(descriptor)

    def is_open(self) -> bool:
        """Says whether the connection can take a request: the node closes idle connections."""
        sock = self.sock
        if sock is None or sock.fileno() < 0:
            return False
        with selectors.DefaultSelector() as selector:
            selector.register(sock, selectors.EVENT_READ)
            # Between two requests there is nothing to read but the end.
            return not selector.select(0)

    def ask(self, method: str, target: str, body: bytes | None, headers: dict[str, str]) -> None:
        """Sends a request with the token of the client."""
        authorization = self._credentials.authorization()
        if authorization is not None:
            headers = {**headers, "Authorization": authorization}
        try:
            self.request(method, target, body, headers)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
            # A node may answer and close before it has read the body. With TLS 1.3 it refuses the certificate of a
            # client after the handshake of that client. Both can be read.
            if self.sock is None:
                raise

    def post(self, target: str, body: bytes, headers: dict[str, str]) -> tuple[int, str | None, bytes]:
        """Sends a request. Returns the status, the header `Retry-After` and the body of the answer."""
        self.ask("POST", target, body, headers)
        response = self.getresponse()
        keep = False
        try:
            answer = b"".join(read_parts(response, ANSWER_BYTES_MAX))
            keep = not response.will_close and len(answer) < ANSWER_BYTES_MAX
        finally:
            response.close()
            if not keep:
                self.close()
        return response.status, response.getheader("Retry-After"), answer

    def connect(self) -> None:
        """Connects to the first address of the host that answers. Called by `request`."""
        error: OSError | None = None
        # As bytes: for text, Python imports a codec, and a fork during that import breaks the codec in the child.
        host = self.host.encode("ascii")
        for family, kind, protocol, _, address in socket.getaddrinfo(host, self.port, 0, socket.SOCK_STREAM):
            try:
                # Known to `abort` before it is connected.
                self.sock = self._last_socket = socket.socket(family, kind, protocol)
                self._set_timeout(self.sock)
                self.sock.connect(address)
                self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._context is not None:
                    # Some versions of Python do not close a socket whose connection ended before this.
                    self._set_timeout(self.sock)
                    self.sock = self._last_socket = self._context.wrap_socket(
                        self.sock, server_hostname=host, do_handshake_on_connect=False
                    )
                    self._set_timeout(self.sock)
                    self.sock.do_handshake()
                return
            except OSError as failure:
                error = failure
                self.close()
        raise error or OSError("the host has no address")

    def send(self, data: object) -> None:
        """Sends bytes of a request. Called by `request`."""
        if self.sock is None:
            self.connect()
        self._set_timeout(self.sock)
        super().send(data)  # type: ignore[arg-type]

    def response_class(  # type: ignore[override]
        self, sock: socket.socket, *_arguments: object, method: str | None = None
    ) -> http.client.HTTPResponse:
        """Makes the response of a request. Called by `getresponse`."""
        return _Response(sock, method, lambda: self._set_timeout(sock))

    def _set_timeout(self, sock: socket.socket) -> None:
        if self._aborted:
            raise ConnectionAbortedError("the client is closed")
        seconds = self._idle
        if self._deadline is not None:
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("timed out")
            seconds = left if seconds is None else min(seconds, left)
        sock.settimeout(None if seconds is None else min(seconds, threading.TIMEOUT_MAX))


def read_parts(response: http.client.HTTPResponse, bytes_max: float = math.inf) -> Iterator[bytes]:
    """Reads the body of an answer in parts as they arrive, at most `bytes_max` of it.

    Raises IncompleteRead if the body ends before its stated end. The response is only good for closing afterwards.
    """
    if response.chunked:
        # Not `read`, which takes the length of a chunk for a length of memory.
        while bytes_max > 0 and (part := response.read1(PART_BYTES)):
            bytes_max -= len(part)
            yield part
        return
    # Not `read1`, which does not count the bytes in older versions of Python.
    left = math.inf if response.length is None else response.length
    while left > 0 and bytes_max > 0:
        part = response.fp.read1(int(min(left, PART_BYTES)))
        if not part:
            if response.length is None:
                return
            raise http.client.IncompleteRead(b"", int(left))
        left -= len(part)
        bytes_max -= len(part)
        yield part


class _Response(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, method: str | None, set_timeout: Callable[[], None]) -> None:
        super().__init__(sock, method=method)
        raw = sock.makefile("rb", buffering=0)
        self.fp.close()
        self.fp = io.BufferedReader(_TimedReader(raw, set_timeout))


class _TimedReader(io.RawIOBase):
    """Sets the time-out of the socket before each read."""

    def __init__(self, raw: socket.SocketIO, set_timeout: Callable[[], None]) -> None:
        self._raw = raw
        self._set_timeout = set_timeout

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int | None:
        self._set_timeout()
        return self._raw.readinto(buffer)

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


def _shut_down(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        # That of the class below TLS, whose own method takes the state of TLS from the thread that reads.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
