"""Queries, counts and tails."""

import asyncio
import datetime
import json
import threading
import urllib.parse
from collections.abc import Iterator
from typing import Any

import pytest

from bucksaw import (
    Client,
    IncompleteAnswerError,
    InvalidAnswerError,
    Notice,
    PartialAnswerError,
    Record,
    RefusedError,
    UnreachableError,
)
from bucksaw._decoder import LINE_BYTES_MAX
from tests.node import Node
from tests.stub import HANG_UP, TIMEOUT, Reply, Request, Stub, accept
from tests.test_sending import endless, free_address

UTC = datetime.timezone.utc
STATS = {"matched": 1, "partial": False, "partial_reasons": [], "nodes_missing": []}
PARTIAL = {**STATS, "partial": True, "partial_reasons": ["node b is down"]}


def line(text: str) -> bytes:
    record = {"id": "01M8AS9GBVYSHY93FBPW000000", "time": "2026-11-26T02:00:00.123456Z", "labels": {}, "line": text}
    return json.dumps(record).encode() + b"\n"


def stats(members: dict[str, Any]) -> bytes:
    return json.dumps({"stats": members}).encode() + b"\n"


def chunked(*parts: bytes, end: bytes = b"0\r\n\r\n") -> Reply:
    encoded = [f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in parts]
    return Reply(200, headers={"Transfer-Encoding": "chunked"}, parts=iter([*encoded, end]))


def parameters(request: Request) -> dict[str, str]:
    return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(request.target).query, keep_blank_values=True))


def test_query_of_a_node(node: Node) -> None:
    start = 1_795_658_400_000_000_000
    with Client(node.address, labels={"service.name": "shop"}) as client:
        for number in range(1000):
            client.log(f"order {number}", "info", {"n": number, "even": number % 2 == 0}, time_ns=start + number * 1000)
        assert client.flush(TIMEOUT)
        first = datetime.datetime.fromtimestamp(start // 1_000_000_000, UTC)
        last = first + datetime.timedelta(seconds=1)
        with client.query("even=true service.name=shop", from_=first, to=last, limit=3) as answer:
            records = list(answer)
        assert [record.text for record in records] == ["order 0", "order 2", "order 4"]
        assert records[1].time_unix_nano == start + 2000
        assert records[1].time == first + datetime.timedelta(microseconds=2)
        assert records[1].labels == {"service.name": "shop"}
        assert records[1].attributes == {"level": "info", "n": "2", "even": "true"}
        assert records[1].line == b"order 2"
        assert answer.stats is not None
        assert not answer.stats.partial
        assert answer.stats.members["nodes_answered"] == 1
        newest = client.query("", from_=first, to=last, limit=1, newest_first=True)
        assert [record.text for record in newest] == ["order 999"]
        assert client.count("even=true", from_=first, to=last) == 500
        assert client.count('"order 7"', from_="2026-11-26 02:00", to="2026-11-26 03:00", time_zone="UTC") > 0
        with pytest.raises(RefusedError) as refused:
            client.count("(")
        assert refused.value.status == 400
        assert str(refused.value)
        with pytest.raises(RefusedError), client.query("x", limit=-1) as answer:
            next(answer)


def test_leaving_an_answer_early(node: Node) -> None:
    with Client(node.address) as client:
        for number in range(20_000):
            client.log(f"order {number}" + "x" * 500)
        assert client.flush(TIMEOUT)
        with client.query() as answer:
            assert next(answer).text.startswith("order 0x")
        assert answer.stats is None
        assert list(answer) == []


def test_tail_of_a_node(node: Node) -> None:
    with Client(node.address) as client, client.tail("level=error") as tail:
        received: list[str] = []

        def read() -> None:
            received.extend(item.text for item in tail if isinstance(item, Record))

        reader = threading.Thread(target=read)
        reader.start()
        while not received:
            client.log("fine", "info")
            client.log("bad", "error")
            assert client.flush(TIMEOUT)
        # Another thread ends it.
        tail.close()
        reader.join(TIMEOUT)
        assert not reader.is_alive()
        assert set(received) == {"bad"}


def test_parameters(stub: Stub) -> None:
    stub.answer = lambda _: chunked(stats(STATS))
    with Client(stub.address + "/base") as client:
        list(client.query("level=error & é", timeout=float("inf")))
        list(
            client.query(
                from_=datetime.datetime(2026, 11, 26, 3, tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
                to="yesterday 10:30",
                limit=5,
                newest_first=True,
                time_zone="+02:00",
            )
        )
        with pytest.raises(InvalidAnswerError):
            next(client.tail("a+b", rate=5))
    assert [request.target.partition("?")[0] for request in stub.requests] == [
        "/base/api/v1/query",
        "/base/api/v1/query",
        "/base/api/v1/tail",
    ]
    assert [parameters(request) for request in stub.requests] == [
        {"q": "level=error & é"},
        {
            "q": "",
            "from": "2026-11-26T02:00:00Z",
            "to": "yesterday 10:30",
            "tz": "+02:00",
            "limit": "5",
            "order": "desc",
        },
        {"q": "a+b", "rate": "5"},
    ]


def test_request_is_sent_with_the_first_read(stub: Stub) -> None:
    with Client(stub.address) as client:
        client.query().close()
        with client.query():
            pass
    assert stub.connections == 0


def test_records_come_as_they_arrive(stub: Stub) -> None:
    go_on = threading.Event()

    def parts() -> Iterator[bytes]:
        for part in (line("a"), line("b")[:10], line("b")[10:] + stats(STATS)):
            yield f"{len(part):x}\r\n".encode() + part + b"\r\n"
            assert go_on.wait(TIMEOUT)
        yield b"0\r\n\r\n"

    stub.answer = lambda _: Reply(200, headers={"Transfer-Encoding": "chunked"}, parts=parts())
    with Client(stub.address) as client, client.query() as answer:
        assert next(answer).text == "a"
        go_on.set()
        assert next(answer).text == "b"
        assert next(answer, None) is None
        assert answer.stats is not None


@pytest.mark.parametrize("length", [True, False])
def test_answer_without_chunks(stub: Stub, length: bool) -> None:
    body = line("a") + stats(STATS)
    stub.answer = lambda _: Reply(200, body) if length else Reply(200, parts=iter([body]), close=True)
    with Client(stub.address) as client, client.query() as answer:
        assert [record.text for record in answer] == ["a"]
        assert answer.stats is not None


BROKEN = {
    "cut": chunked(line("a"), end=b"5\r\nab"),
    "ended": chunked(line("a")),
    "cut in the length": Reply(200, line("a"), {"Content-Length": "1000"}, close=True),
    "cut between chunks": chunked(line("a"), end=b""),
    "not a chunk": chunked(line("a"), end=b"zz\r\n"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_incomplete_answer(stub: Stub, name: str) -> None:
    reply = BROKEN[name]
    reply.close = True
    stub.answer = lambda _: reply
    with Client(stub.address) as client, client.query() as answer:
        assert next(answer).text == "a"
        with pytest.raises(IncompleteAnswerError):
            next(answer)


@pytest.mark.parametrize(
    "bad",
    [
        b"<html>\n",
        b"1\n",
        b'{"line":1}\n',
        b'{"line":"a","id":"1","time":"now"}\n',
        b'{"line":"a","id":"1","time":"2026-13-26T02:00:00Z"}\n',
        line("a").replace(b'"a"', b'"\\ud800"'),
        line("a").replace(b'"labels": {}', b'"labels": {"a": 1}'),
        line("a").replace(b'"line": "a"', b'"line_base64": "%"'),
        b"[" * 200_000 + b"\n",
        b'{"stats":1}\n',
        b'{"stats":{"partial":"yes"}}\n',
        b'{"a":' + b"1" * 100_000 + b"}\n",
    ],
    ids=range(12),
)
def test_invalid_answer(stub: Stub, bad: bytes) -> None:
    stub.answer = lambda _: chunked(line("a"), bad, stats(STATS))
    with Client(stub.address) as client, client.query() as answer:
        assert next(answer).text == "a"
        with pytest.raises(InvalidAnswerError):
            next(answer)


def test_partial_answer(stub: Stub) -> None:
    stub.answer = lambda _: chunked(line("a") + stats(PARTIAL))
    with Client(stub.address) as client:
        answer = client.query()
        assert next(answer).text == "a"
        with pytest.raises(PartialAnswerError, match="node b is down") as error:
            next(answer)
        assert error.value.reasons == ("node b is down",)
        answer = client.query(allow_partial=True)
        assert [record.text for record in answer] == ["a"]
        assert answer.stats is not None
        assert answer.stats.partial


def test_line_has_a_limit(stub: Stub) -> None:
    longest = line("x" * (LINE_BYTES_MAX - len(line("")) + 1))
    assert len(longest) == LINE_BYTES_MAX + 1
    stub.answer = lambda _: chunked(longest, stats(STATS))
    with Client(stub.address) as client:
        assert len(list(client.query())) == 1
        stub.answer = lambda _: chunked(b" " + longest, stats(STATS))
        with pytest.raises(InvalidAnswerError, match="longer than"):
            list(client.query())
        # One without an end.
        stub.answer = lambda _: Reply(200, parts=endless(b"x" * 65536))
        with pytest.raises(InvalidAnswerError, match="longer than"):
            list(client.query())


def test_silent_node_times_out(stub: Stub) -> None:
    release = threading.Event()

    def wait(_request: Request) -> Reply:
        release.wait(TIMEOUT)
        return HANG_UP

    def drip() -> Iterator[bytes]:
        yield line("a")
        release.wait(TIMEOUT)

    try:
        with Client(stub.address) as client:
            stub.answer = wait
            with pytest.raises(UnreachableError, match="timed out"):
                list(client.query(timeout=0.05))
            stub.answer = lambda _: Reply(200, parts=drip())
            answer = client.query(timeout=0.2)
            assert next(answer).text == "a"
            with pytest.raises(IncompleteAnswerError, match="timed out"):
                next(answer)
    finally:
        release.set()


def test_next_endpoint_answers(stub: Stub) -> None:
    stub.answer = lambda _: chunked(line("a"), stats(STATS))
    with Stub(lambda _: Reply(503, b'{"error":"stopping"}')) as stopping:
        with Client([free_address(), stopping.address, stub.address]) as client:
            assert len(list(client.query())) == 1
        with Client([free_address(), stopping.address]) as client:
            with pytest.raises(RefusedError, match="stopping"):
                list(client.query())
            with pytest.raises(RefusedError, match="stopping"):
                client.count()
    with Client(free_address()) as client, pytest.raises(UnreachableError, match="refused"):
        client.count()


def test_count(stub: Stub) -> None:
    stub.answer = lambda _: Reply(200, json.dumps({"count": 7, "stats": PARTIAL}).encode())
    with Client(stub.address) as client:
        with pytest.raises(PartialAnswerError) as error:
            client.count()
        assert error.value.count == 7
        assert client.count(allow_partial=True) == 7
        stub.answer = lambda _: Reply(200, parts=endless(b" " * 65536))
        with pytest.raises(InvalidAnswerError):
            client.count()
        stub.answer = lambda _: Reply(200, b'{"count":7', {"Content-Length": "1000"}, close=True)
        with pytest.raises(IncompleteAnswerError):
            client.count()
        stub.answer = lambda _: Reply(200, b'{"count":"7","stats":{}}')
        with pytest.raises(InvalidAnswerError):
            client.count()


def test_notices_of_a_tail(stub: Stub) -> None:
    stub.answer = lambda _: chunked(line("a"), b'{"skipped_bytes":5}\n{"lost":"down","node":"b"}\n\n', line("b"))
    with Client(stub.address) as client, client.tail() as tail:
        items = [next(tail) for _ in range(4)]
        assert [item.members if isinstance(item, Notice) else item.text for item in items] == [
            "a",
            {"skipped_bytes": 5},
            {"lost": "down", "node": "b"},
            "b",
        ]
        with pytest.raises(IncompleteAnswerError):
            next(tail)


def test_asyncio(stub: Stub) -> None:
    """Reading does not block the loop: the answer goes on only after another task has run."""
    go_on, go_on_again = threading.Event(), threading.Event()

    def parts() -> Iterator[bytes]:
        for part in (line("a"), line("b") + line("c"), stats(STATS)):
            yield part
            assert go_on.wait(TIMEOUT)

    def answer(request: Request) -> Reply:
        if request.method == "GET":
            return Reply(200, parts=parts(), close=True)
        # The end of the client waits for this answer, and the loop goes on.
        assert go_on_again.wait(TIMEOUT)
        return accept(request)

    stub.answer = answer

    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        async with Client(stub.address, close_time=TIMEOUT) as client:
            client.log("logged")
            async with client.query() as answer:
                loop.call_later(0.05, go_on.set)
                texts = [record.text async for record in answer]
            assert answer.stats is not None
            loop.call_later(0.05, go_on_again.set)
        assert client.stats().acknowledged == 1
        return texts

    assert asyncio.run(main()) == ["a", "b", "c"]


def test_asyncio_errors_and_cancellation(stub: Stub) -> None:
    release = threading.Event()

    def parts() -> Iterator[bytes]:
        yield line("a")
        release.wait(TIMEOUT)

    async def main() -> None:
        with Client(stub.address) as client:
            stub.answer = lambda _: chunked(line("a") + stats(PARTIAL))
            with pytest.raises(PartialAnswerError):
                async for _ in client.query():
                    pass
            stub.answer = lambda _: Reply(200, parts=parts(), close=True)
            read = asyncio.Event()

            async def tail() -> None:
                async with client.tail() as tail:
                    async for _ in tail:
                        read.set()

            task = asyncio.create_task(tail())
            await read.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    try:
        # The end of the loop waits for the thread that reads: it must not wait for the server.
        asyncio.run(main())
        assert not release.is_set()
    finally:
        release.set()
