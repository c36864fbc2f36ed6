"""Batches, retries, limits and counters, against a server that answers as the test says."""

import contextlib
import json
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from bucksaw import Client, Failure, Stats
from bucksaw import _buffer as buffer_module
from bucksaw import _client as client_module
from bucksaw import _sender as sender_module
from tests.stub import HANG_UP, TIMEOUT, Reply, Request, Stub, accept

#: Longer than any test.
NEVER = 1000.0


def ignore(_failure: Failure) -> None:
    pass


def invariant(stats: Stats) -> None:
    parts = stats.acknowledged + stats.rejected + sum(stats.dropped.values()) + stats.buffered_records
    assert stats.logged == parts, stats


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Records the pauses, and makes them short."""
    pauses: list[tuple[int, int]] = []

    def pause(attempt: int, random: float, retry_after: int) -> float:
        assert 0 <= random <= 1
        pauses.append((attempt, retry_after))
        return 0.001

    monkeypatch.setattr(sender_module, "pause", pause)
    return pauses


def test_one_record(stub: Stub) -> None:
    with Client(stub.address, labels={"service.name": "shop"}) as client:
        client.log("paid", "info", {"order": 4711}, time_ns=1_795_658_400_123_456_789)
        assert client.flush(TIMEOUT)
        invariant(client.stats())
        assert client.stats().acknowledged == 1
    (request,) = stub.requests
    assert request.method == "POST"
    assert request.target == (
        "/api/v1/ingest?durability=durable&time_field=time&message_field=message&label=service.name%3Dshop"
    )
    assert request.headers["content-type"] == "application/x-ndjson"
    assert "content-encoding" not in request.headers
    assert request.records == [
        {"time": "2026-11-26T02:00:00.123456789Z", "message": "paid", "level": "info", "order": 4711}
    ]


def test_batch_is_sent_when_it_is_old_enough(stub: Stub) -> None:
    with Client(stub.address, batch_age=0.01) as client:
        client.log("a")
        stub.wait_for(1)


def test_batch_is_sent_when_it_has_enough_records(stub: Stub) -> None:
    with Client(stub.address, batch_age=NEVER, batch_records=3) as client:
        for number in range(7):
            client.log(str(number))
        requests = stub.wait_for(2)
        assert [[record["message"] for record in request.records] for request in requests] == [
            ["0", "1", "2"],
            ["3", "4", "5"],
        ]
        assert requests[0].key != requests[1].key
        # One connection for all.
        assert stub.connections == 1
    assert [record["message"] for record in stub.records()] == [str(number) for number in range(7)]


def test_batch_is_sent_when_it_has_enough_bytes(stub: Stub) -> None:
    with Client(stub.address, batch_age=NEVER, batch_bytes=5000) as client:
        client.log("x" * 4000)
        assert client.stats().buffered_records == 1
        client.log("y" * 4000)
        (request,) = stub.wait_for(1)
        assert request.headers["content-encoding"] == "gzip"
        assert len(request.raw_body) < 1000
        assert [record["message"][0] for record in request.records] == ["x", "y"]


def test_body_is_at_most_what_a_node_accepts_whole(stub: Stub) -> None:
    with Client(stub.address, batch_age=NEVER) as client:
        client.log("x" * 300_000)
        client.log("y" * 900_000)
        assert client.flush(TIMEOUT)
    assert [len(request.records) for request in stub.requests] == [1, 1]


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_retry_has_same_key_and_body(stub: Stub, no_pause: list[tuple[int, int]], status: int) -> None:
    refusal = Reply(status, b'{"error":"busy"}')
    stub.script(refusal, refusal, HANG_UP, Reply(200, b"<html>"), Reply(200, b'{"accepted":2,"rej'))
    failures: list[Failure] = []
    with Client(stub.address, on_error=failures.append, batch_age=NEVER) as client:
        client.log("a" * 2000)
        client.log("b")
        assert client.flush(TIMEOUT)
        stats = client.stats()
        assert (stats.acknowledged, stats.retries) == (2, 5)
        invariant(stats)
    assert len(stub.requests) == 6
    assert len({(request.key, request.raw_body, request.target) for request in stub.requests}) == 1
    assert no_pause == [(number, 0) for number in range(1, 6)]
    assert [failure.kind for failure in failures] == ["retry"] * 5
    assert failures[0].records == 2
    assert "busy" in failures[0].message


def test_retry_after(stub: Stub, no_pause: list[tuple[int, int]]) -> None:
    stub.script(Reply(503, b"", {"Retry-After": "7"}), Reply(429, b"", {"Retry-After": "soon"}))
    with Client(stub.address, on_error=ignore) as client:
        client.log("a")
        assert client.flush(TIMEOUT)
    assert no_pause == [(1, 7), (2, 0)]


def test_incomplete_answers_are_retried(stub: Stub, no_pause: list[tuple[int, int]]) -> None:
    stub.script(
        Reply(200, b'{"accepted":1,"rejected":0}', {"Content-Length": "100"}, close=True),
        Reply(400, b'{"error":"no"', {"Content-Length": "100"}, close=True),
        Reply(200, b"5\r\n{", {"Transfer-Encoding": "chunked"}, close=True),
        Reply(200, b"-1\r\n{", {"Transfer-Encoding": "chunked"}, close=True),
    )
    with Client(stub.address, on_error=ignore) as client:
        client.log("a")
        assert client.flush(TIMEOUT)
        assert client.stats().acknowledged == 1
        assert client.stats().retries == 4


def test_endpoints_rotate(no_pause: list[tuple[int, int]]) -> None:
    with Stub(lambda _request: Reply(503)) as first, Stub() as second:
        dead = free_address()
        with Client([first.address, dead, second.address], on_error=ignore, batch_age=NEVER) as client:
            client.log("a")
            assert client.flush(TIMEOUT)
            # The endpoint that works is kept.
            client.log("b")
            assert client.flush(TIMEOUT)
            assert client.stats().retries == 2
        assert [record["message"] for record in second.records()] == ["a", "b"]
        assert len(first.requests) == 1
        assert first.requests[0].key == second.requests[0].key


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


def test_other_statuses_drop_the_batch(stub: Stub) -> None:
    stub.script(Reply(400, b'{"error":"label: bad"}'), Reply(307, b"", {"Location": "http://127.0.0.1:1/"}), Reply(204))
    failures: list[Failure] = []
    with Client(stub.address, on_error=failures.append, batch_records=1) as client:
        for message in "abcd":
            client.log(message)
        assert client.flush(TIMEOUT)
        stats = client.stats()
        assert (stats.acknowledged, stats.dropped["refused"], stats.retries) == (1, 3, 0)
        invariant(stats)
    assert [(failure.kind, failure.records) for failure in failures] == [("refused", 1)] * 3
    assert [failure.message.removeprefix(f"{stub.address}: ") for failure in failures] == [
        "label: bad",
        "status 307",
        "status 204",
    ]


def test_rejected_records_are_counted(stub: Stub) -> None:
    stub.script(
        Reply(200, b'{"accepted":2,"rejected":1,"errors":[{"error":"too many"}]}'),
        # More than were sent: the counters stay consistent.
        Reply(200, b'{"accepted":0,"rejected":1000}'),
    )
    failures: list[Failure] = []
    with Client(stub.address, on_error=failures.append, batch_records=3) as client:
        for message in "abcdef":
            client.log(message)
        assert client.flush(TIMEOUT)
        stats = client.stats()
        assert (stats.acknowledged, stats.rejected) == (2, 4)
        invariant(stats)
    assert [(failure.kind, failure.records) for failure in failures] == [("rejected", 1), ("rejected", 3)]
    assert "too many" in failures[0].message


def test_old_batch_is_dropped(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[Failure] = []
    with Client(stub.address, on_error=failures.append, batch_age=NEVER) as client:
        client.log("a")
        monkeypatch.setattr(sender_module, "KEY_AGE_MAX_MS", -1)
        assert client.flush(TIMEOUT)
        assert client.stats().dropped["too_old"] == 1
        invariant(client.stats())
    assert stub.requests == []
    assert [(failure.kind, failure.records) for failure in failures] == [("too_old", 1)]


def endless(part: bytes) -> Iterator[bytes]:
    while True:
        yield part


def test_endless_answers_fail(stub: Stub, no_pause: list[tuple[int, int]]) -> None:
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    stub.script(
        Reply(200, parts=endless(b" " * 65536)),
        Reply(200, headers={"Transfer-Encoding": "chunked"}, parts=endless(chunk)),
        Reply(100, headers={"Content-Length": "0"}, parts=endless(b"X: " + b"y" * 65536)),
        Reply(503, headers={"Content-Length": str(1 << 60)}, parts=endless(b" " * 65536)),
    )
    with Client(stub.address, on_error=ignore) as client:
        client.log("a")
        assert client.flush(TIMEOUT)
        assert client.stats().retries == 4


def test_slow_answers_time_out(stub: Stub, no_pause: list[tuple[int, int]]) -> None:
    release = threading.Event()

    def drip() -> Iterator[bytes]:
        # Each byte comes in time, but the answer never ends.
        while not release.wait(0.02):
            yield b" "

    def silence(_request: Request) -> Reply:
        release.wait(TIMEOUT)
        return HANG_UP

    stub.script(Reply(200, parts=drip()), silence)
    try:
        with Client(stub.address, on_error=ignore, request_time=0.2) as client:
            client.log("a")
            assert client.flush(TIMEOUT)
            assert client.stats().retries == 2
    finally:
        release.set()


def test_node_that_does_not_read_times_out(no_pause: list[tuple[int, int]]) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=1) as deaf, Stub() as stub:
        address = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        client = Client([address, stub.address], on_error=ignore, request_time=0.2, batch_age=NEVER)
        with client:
            # Does not fit into the buffers of a socket, even compressed.
            for _ in range(8):
                client.log(incompressible(900_000))
            assert client.flush(TIMEOUT)
            assert client.stats().acknowledged == 8


def incompressible(length: int) -> str:
    import random

    return "".join(random.Random(length).choices("0123456789abcdefghijklmnopqrstuvwxyz", k=length))


def test_connection_that_the_node_closed_is_not_used(stub: Stub, no_pause: list[tuple[int, int]]) -> None:
    with Client(stub.address, on_error=ignore) as client:
        client.log("a")
        assert client.flush(TIMEOUT)
        stub.disconnect()
        client.log("b")
        assert client.flush(TIMEOUT)
        assert client.stats().retries == 0
    assert stub.connections == 2


def test_answer_before_the_body_is_read(stub: Stub) -> None:
    """A node may refuse a body that it does not read."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def refuse() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(10)
                connection.sendall(b'HTTP/1.1 413 Large\r\nContent-Length: 17\r\n\r\n{"error":"large"}')
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1 << 20):
                    pass

        thread = threading.Thread(target=refuse)
        thread.start()
        failures: list[Failure] = []
        with Client(f"http://127.0.0.1:{server.getsockname()[1]}", on_error=failures.append) as client:
            client.log(incompressible(1_000_000))
            assert client.flush(TIMEOUT)
            assert client.stats().dropped["refused"] == 1
        thread.join(TIMEOUT)
    assert failures[0].message.endswith(": large")


class Blocked:
    """Answers no request before it is released."""

    def __init__(self) -> None:
        self.release = threading.Event()

    def __call__(self, request: Request) -> Reply:
        self.release.wait(TIMEOUT)
        return accept(request)


@pytest.fixture
def blocked(stub: Stub) -> Iterator[Blocked]:
    blocked = Blocked()
    stub.answer = blocked
    yield blocked
    blocked.release.set()


def test_full_buffer_drops(stub: Stub, blocked: Blocked) -> None:
    failures: list[Failure] = []
    with Client(stub.address, on_error=failures.append, batch_records=1, buffer_bytes=1000) as client:
        for _ in range(100):
            client.log("x" * 100)
        stats = client.stats()
        assert 0 < stats.buffered_bytes <= 1000
        assert stats.buffered_records + stats.dropped["full"] == stats.logged == 100
        # One that never fits.
        client.log("x" * 2000)
        assert client.stats().dropped["full"] == stats.dropped["full"] + 1
        blocked.release.set()
        assert client.flush(TIMEOUT)
        stats = client.stats()
        assert stats.acknowledged == len(stub.records())
        assert stats.buffered_bytes == stats.buffered_records == 0
        invariant(stats)
    assert sum(failure.records for failure in failures if failure.kind == "full") == stats.dropped["full"]


def test_full_buffer_blocks_until_there_is_space(stub: Stub, blocked: Blocked) -> None:
    with Client(
        stub.address, on_error=ignore, batch_age=NEVER, buffer_bytes=1000, when_full="block", block_time=TIMEOUT
    ) as client:
        messages = [f"{number:100}" for number in range(50)]

        def log() -> None:
            for message in messages:
                client.log(message)

        thread = threading.Thread(target=log)
        thread.start()
        # Sealed although it is neither old nor large, because nothing more fits.
        stub.wait_for(1)
        assert thread.is_alive()
        blocked.release.set()
        thread.join(TIMEOUT)
        assert client.flush(TIMEOUT)
        assert client.stats().acknowledged == 50
    assert [record["message"] for record in stub.records()] == messages


def test_full_buffer_blocks_many_threads(stub: Stub) -> None:
    """A thread goes on waiting if another one takes the space."""
    with Client(
        stub.address, on_error=ignore, batch_records=5, buffer_bytes=1000, when_full="block", block_time=TIMEOUT
    ) as client:

        def log() -> None:
            for number in range(100):
                client.log(f"{number:100}")

        workers = [threading.Thread(target=log) for _ in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(TIMEOUT)
        assert client.flush(TIMEOUT)
        assert client.stats().acknowledged == client.stats().logged == 800


def test_dropped_records_are_reported_while_the_node_is_down(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reports come during the pause, and not one for each record."""
    monkeypatch.setattr(sender_module, "pause", lambda *_: NEVER)
    stub.answer = lambda _: Reply(503)
    failures: list[Failure] = []
    reported = threading.Event()

    def on_error(failure: Failure) -> None:
        failures.append(failure)
        if failure.kind == "full":
            reported.set()

    with Client(stub.address, on_error=on_error, batch_age=0, buffer_bytes=1000, close_time=0.05) as client:
        while not reported.is_set():
            client.log("x" * 500)
        dropped = client.stats().dropped["full"]
        for _ in range(1000):
            client.log("x" * 500)
    full = [failure.records for failure in failures if failure.kind == "full"]
    assert sum(full) == client.stats().dropped["full"] == dropped + 1000
    assert len(full) < 100


def test_full_buffer_blocks_for_a_time(stub: Stub, blocked: Blocked) -> None:
    with Client(stub.address, on_error=ignore, buffer_bytes=1000, when_full="block", block_time=0.01) as client:
        for _ in range(20):
            client.log("x" * 100)
        assert client.stats().dropped["full"] > 0
        invariant(client.stats())
        blocked.release.set()


def test_flush_says_whether_the_time_sufficed(stub: Stub, blocked: Blocked) -> None:
    with Client(stub.address, on_error=ignore, batch_age=NEVER) as client:
        assert client.flush(0)
        client.log("a")
        assert not client.flush(0)
        assert not client.flush(0.01)
        stub.wait_for(1)
        blocked.release.set()
        assert client.flush(TIMEOUT)
        assert client.flush(0)


def test_flush_without_a_limit(stub: Stub) -> None:
    with Client(stub.address) as client:
        client.log("a")
        assert client.flush(float("inf"))


def test_flush_does_not_wait_for_later_records(stub: Stub) -> None:
    second = threading.Event()
    stub.script(accept, lambda request: (second.wait(TIMEOUT), accept(request))[1])
    with Client(stub.address, batch_records=1) as client:
        client.log("a")
        stub.wait_for(1)
        client.log("b")
        stub.wait_for(2)
        flushed = threading.Thread(target=client.flush, args=(TIMEOUT,))
        flushed.start()
        client.log("c")
        second.set()
        flushed.join(TIMEOUT)
        assert not flushed.is_alive()


def test_close_drops_what_is_not_acknowledged(stub: Stub, blocked: Blocked) -> None:
    failures: list[Failure] = []
    client = Client(stub.address, on_error=failures.append, batch_records=2, close_time=0.05)
    for _ in range(5):
        client.log("a")
    stub.wait_for(1)
    assert not client.close()
    client.log("b")
    stats = client.stats()
    assert stats.dropped["closed"] == stats.logged == 6
    invariant(stats)
    assert [(failure.kind, failure.records) for failure in failures] == [("closed", 5)]
    # The thread ended although the request has no answer.
    assert not threads()
    assert not client.close()
    assert client.flush()


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "bucksaw"]


def test_close_sends_what_is_left(stub: Stub) -> None:
    client = Client(stub.address, batch_age=NEVER, close_time=TIMEOUT)
    client.log("a")
    assert client.close()
    assert [record["message"] for record in stub.records()] == ["a"]
    assert not threads()


def test_closing_ends_pauses(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that a node asks for. Until the close time is over, the pauses are the shortest ones."""
    pauses: list[tuple[int, int]] = []

    def pause(attempt: int, _: float, retry_after: int) -> float:
        pauses.append((attempt, retry_after))
        if len(pauses) < 3 or closing.is_set():
            return 0.001
        closing.set()
        return NEVER

    closing = threading.Event()
    monkeypatch.setattr(sender_module, "pause", pause)
    wait = {"Retry-After": "60"}
    stub.script(Reply(503), Reply(503), Reply(503, headers=wait), Reply(503, headers=wait), Reply(503, headers=wait))
    client = Client(stub.address, on_error=ignore, batch_age=0, close_time=TIMEOUT)
    client.log("a")
    assert closing.wait(TIMEOUT)
    assert client.close()
    assert client.stats().acknowledged == 1
    assert pauses == [(1, 0), (2, 0), (3, 60), (1, 0), (2, 0)]


def test_close_ends_a_pause_of_days(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender_module, "pause", lambda *_: NEVER)
    stub.script(Reply(503))
    failed = threading.Event()
    client = Client(stub.address, on_error=lambda _: failed.set(), batch_age=0, close_time=TIMEOUT)
    client.log("a")
    assert failed.wait(TIMEOUT)
    assert client.close()
    assert client.stats().acknowledged == 1
    assert not threads()


def test_close_while_connecting() -> None:
    """A host that does not answer does not keep the thread."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, contextlib.ExitStack() as stack:
        address = server.getsockname()
        # Fills the queue of the listener, so that further connections get no answer.
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(address)
        client = Client(f"http://127.0.0.1:{address[1]}", on_error=ignore, batch_age=0, close_time=0.05)
        client.log("a")
        assert not client.close()
        assert not threads()


def test_idle_client_has_no_thread(stub: Stub) -> None:
    with Client(stub.address) as client:
        assert client.flush()
        assert not threads()
    assert stub.connections == 0


def test_close_in_other_threads(stub: Stub) -> None:
    client = Client(stub.address, close_time=TIMEOUT)
    client.log("a")
    closers = [threading.Thread(target=client.close) for _ in range(4)]
    for closer in closers:
        closer.start()
    for closer in closers:
        closer.join(TIMEOUT)
        assert not closer.is_alive()
    assert client.stats().acknowledged == 1


def test_on_error_may_do_anything(stub: Stub, no_pause: list[tuple[int, int]], capfd: Any) -> None:
    stub.script(Reply(503), Reply(503))
    calls: list[Callable[[], object]] = []

    def on_error(_failure: Failure) -> None:
        client.log("failed", "error")
        assert not client.flush(NEVER)
        calls.append(client.stats)
        raise RuntimeError("in on_error")

    with Client(stub.address, on_error=on_error) as client:
        client.log("a")
        assert client.flush(TIMEOUT)
        assert client.flush(TIMEOUT)
    assert len(calls) == 2
    assert [record["message"] for record in stub.records()] == ["a", "failed", "failed"]
    assert "on_error raised RuntimeError" in capfd.readouterr().err


@pytest.mark.parametrize("failure", [RuntimeError, MemoryError, KeyboardInterrupt])
def test_thread_that_cannot_be_started(
    stub: Stub, monkeypatch: pytest.MonkeyPatch, failure: type[BaseException]
) -> None:
    start = threading.Thread.start

    def fail(thread: threading.Thread) -> None:
        monkeypatch.setattr(threading.Thread, "start", start)
        raise failure

    monkeypatch.setattr(client_module, "START_INTERVAL", 0)
    monkeypatch.setattr(threading.Thread, "start", fail)
    client = Client(stub.address, batch_age=0)
    # An exception of a signal handler comes through. The record is in the buffer all the same.
    with contextlib.suppress(KeyboardInterrupt):
        client.log("a")
    client.log("b")
    assert client.flush(TIMEOUT)
    assert client.close()
    assert [record["message"] for record in stub.records()] == ["a", "b"]


def test_close_in_on_error(stub: Stub) -> None:
    stub.script(Reply(503))
    closed = threading.Event()

    def on_error(_failure: Failure) -> None:
        client.close()
        closed.set()

    client = Client(stub.address, on_error=on_error)
    client.log("a")
    client.flush(TIMEOUT)
    assert closed.wait(TIMEOUT)
    invariant(client.stats())
    for thread in threading.enumerate():
        if thread.name == "bucksaw":
            thread.join(TIMEOUT)
    assert not threads()


def test_many_threads(stub: Stub) -> None:
    with Client(stub.address, batch_records=100) as client:

        def log(thread: int) -> None:
            for number in range(1000):
                client.log(f"{thread} {number}")
                if number % 100 == 0:
                    invariant(client.stats())

        workers = [threading.Thread(target=log, args=(thread,)) for thread in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(TIMEOUT)
        assert client.flush(TIMEOUT)
        assert client.stats().acknowledged == client.stats().logged == 8000
    messages = [record["message"] for record in stub.records()]
    for thread in range(8):
        assert [message for message in messages if message.startswith(f"{thread} ")] == [
            f"{thread} {number}" for number in range(1000)
        ]


def test_signal_handler_that_logs(stub: Stub) -> None:
    """A signal handler may run at any point of a call in the same thread."""
    handled = 0

    def handler(_number: int, _frame: FrameType | None) -> None:
        nonlocal handled
        handled += 1
        client.log(f"signal {handled}")
        client.stats()
        client.flush(0)

    with Client(stub.address, batch_records=50) as client:
        before = signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
        try:
            logged = 0
            while handled < 300:
                client.log(f"main {logged}")
                logged += 1
                if logged % 10 == 0:
                    invariant(client.stats())
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert client.flush(TIMEOUT)
        assert client.stats().logged == client.stats().acknowledged == logged + handled
    messages = [record["message"] for record in stub.records()]
    assert len(messages) == len(set(messages)) == logged + handled


def test_signal_handler_before_deferred_records_are_added(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """It adds them itself."""
    calls = 0

    def get_ident() -> int:
        nonlocal calls
        calls += 1
        # The first one is that of `add`, the second one that of `_add_deferred`.
        if calls == 1:
            client._buffer._deferred.append((b'{"message":"deferred"}\n', None))
        if calls == 2:
            client.log("handler")
        return threading.get_ident()

    with Client(stub.address) as client:
        monkeypatch.setattr(buffer_module, "get_ident", get_ident)
        client.log("main")
        monkeypatch.undo()
        assert client.flush(TIMEOUT)
        invariant(client.stats())
    assert [record["message"] for record in stub.records()] == ["main", "handler", "deferred"]


def test_interrupt_behind_the_acquisition_of_the_lock(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock is free again, for the background thread and for others."""
    with Client(stub.address) as client:
        lock = client._buffer._lock

        class InterruptedLock:
            def acquire(self, blocking: bool) -> bool:
                assert lock.acquire(blocking)
                raise KeyboardInterrupt

            def release(self) -> None:
                lock.release()

        monkeypatch.setattr(client._buffer, "_lock", InterruptedLock())
        with pytest.raises(KeyboardInterrupt):
            client.log("interrupted")
        monkeypatch.undo()
        logger = threading.Thread(target=client.log, args=("after",))
        logger.start()
        logger.join(TIMEOUT)
        assert not logger.is_alive()
        assert client.flush(TIMEOUT)
    assert [record["message"] for record in stub.records()] == ["after"]


def test_a_record_waits_for_a_change_in_another_thread(stub: Stub) -> None:
    with Client(stub.address) as client:
        logger = threading.Thread(target=client.log, args=("second",))
        with client._buffer._lock:
            logger.start()
            logger.join(0.05)
            assert logger.is_alive()
            client.log("first")
        logger.join(TIMEOUT)
        assert client.flush(TIMEOUT)
    assert [record["message"] for record in stub.records()] == ["first", "second"]


def test_interrupted_close(stub: Stub, blocked: Blocked) -> None:
    def interrupt(_number: int, _frame: FrameType | None) -> None:
        assert not client.close()
        raise KeyboardInterrupt

    client = Client(stub.address, on_error=ignore, batch_age=0, close_time=TIMEOUT)
    client.log("a")
    stub.wait_for(1)
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            client.close()
    finally:
        signal.signal(signal.SIGALRM, before)
    for thread in threading.enumerate():
        if thread.name == "bucksaw":
            thread.join(TIMEOUT)
    assert not threads()
    assert client.stats().dropped["closed"] == 1
    invariant(client.stats())


def test_failures_go_to_standard_error_once_a_minute(
    stub: Stub, no_pause: list[tuple[int, int]], capfd: pytest.CaptureFixture[str]
) -> None:
    stub.script(Reply(503, b'{"error":"busy"}'), Reply(503), Reply(400, b'{"error":"no"}'), Reply(400))
    with Client(stub.address, batch_records=2, batch_age=NEVER) as client:
        for _ in range(4):
            client.log("a")
        assert client.flush(TIMEOUT)
    # `sys.__stderr__` is not redirected, but its descriptor is.
    assert capfd.readouterr().err.splitlines() == [
        f"bucksaw: 2 records are sent again: {stub.address}: busy",
        f"bucksaw: 2 records were dropped: {stub.address}: no",
    ]


def test_no_thread_can_be_started(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    client = Client(stub.address, on_error=ignore, close_time=TIMEOUT)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        client.log("a")
        client.log("b")
    assert client.close()
    assert client.stats().acknowledged == 2


@pytest.mark.parametrize(
    "settings",
    [
        {"endpoints": []},
        {"endpoints": "ftp://h"},
        {"endpoints": "http://user:password@h"},
        {"endpoints": "http://h?a=b"},
        {"endpoints": "http://h:port"},
        {"endpoints": "http://"},
        {"endpoints": " , "},
        {"durability": "very"},
        {"when_full": "raise"},
        {"batch_bytes": 0},
        {"request_time": 0},
        {"close_time": -1},
        {"close_time": float("inf")},
        {"batch_age": float("nan")},
        {"labels": {"": "a"}},
        {"labels": {"a=b": "c"}},
        {"labels": {"9a": "c"}},
        {"batch_bytes": (8 << 20) + 1},
        {"batch_records": 32_769},
        {"labels": {"a": 1}},
        {"labels": {"a": "\ud800"}},
    ],
)
def test_invalid_settings(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        Client(**{"endpoints": "http://127.0.0.1:1", **settings})


def test_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    def addresses(endpoints: str | list[str] | None) -> list[str]:
        client = Client(endpoints)
        client.close()
        return [str(endpoint) for endpoint in client._settings.endpoints]

    monkeypatch.setenv("BUCKSAW_ADDR", "http://a:1, b:2")
    assert addresses(None) == ["http://a:1", "http://b:2"]
    monkeypatch.setenv("BUCKSAW_ADDR", " ")
    assert addresses(None) == ["http://127.0.0.1:7650"]
    monkeypatch.setenv("BUCKSAW_ADDR", ":7651,,localhost:7652,")
    assert addresses(None) == ["http://127.0.0.1:7651", "http://localhost:7652"]
    assert addresses(["https://[::1]:7650/x/", "h"]) == ["https://[::1]:7650/x", "http://h:7650"]


def test_report_is_a_sentence() -> None:
    assert str(Failure("full", "the buffer is full", 3)) == "3 records were dropped: the buffer is full"
    assert json.dumps(str(Failure("retry", "a", 1)))
