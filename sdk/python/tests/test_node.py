"""The client against the real program."""

import http.client
import ssl
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from bucksaw import Client, Failure, RefusedError, UnreachableError
from tests.node import Node, has_command, program
from tests.stub import HANG_UP, Reply, Request, Stub

RECORDS = 100_000
LOGGERS = 4
TIMEOUT = 60.0


def test_records_are_stored_once_though_the_node_is_killed(node: Node) -> None:
    failures: list[Failure] = []
    client = Client(
        node.address,
        labels={"service.name": "shop"},
        on_error=failures.append,
        batch_records=1000,
        # All records wait for the node when it is down.
        when_full="block",
        block_time=TIMEOUT,
        request_time=10,
    )
    # The loggers reach a gate while their last records are being sent. They go on when the node is down.
    gates = [(RECORDS * third // 3, threading.Semaphore(0), threading.Event()) for third in (1, 2)]

    def log(thread: int) -> None:
        left = list(gates)
        for number in range(thread, RECORDS, LOGGERS):
            if left and number >= left[0][0]:
                _, reached, killed = left.pop(0)
                reached.release()
                assert killed.wait(TIMEOUT)
            client.log(f"record {number}", "info", {"number": number})

    loggers = [threading.Thread(target=log, args=(thread,)) for thread in range(LOGGERS)]
    with client:
        for logger in loggers:
            logger.start()
        for _, reached, killed in gates:
            for _ in loggers:
                assert reached.acquire(timeout=TIMEOUT)
            retries = client.stats().retries
            node.kill()
            killed.set()
            while client.stats().retries == retries:
                time.sleep(0.001)
            node.start()
        for logger in loggers:
            logger.join(TIMEOUT)
        assert client.flush(TIMEOUT)
        assert {failure.kind for failure in failures} == {"retry"}, failures
        stats = client.stats()
        assert stats.acknowledged == stats.logged == RECORDS
        assert client.count("service.name=shop") == RECORDS
        with client.query("service.name=shop") as answer:
            messages = [record.text for record in answer]
        assert answer.stats is not None
        assert answer.stats.matched == RECORDS
    assert len(messages) == RECORDS
    assert set(messages) == {f"record {number}" for number in range(RECORDS)}


def test_records_are_stored_once_though_answers_are_lost(node: Node) -> None:
    """The node stores each batch, and the first two answers do not arrive."""
    attempts: Counter[bytes] = Counter()

    def forward(request: Request) -> Reply:
        connection = http.client.HTTPConnection(node.address.removeprefix("http://"), timeout=TIMEOUT)
        headers = {name: text for name, text in request.headers.items() if name != "host"}
        connection.request(request.method, request.target, request.raw_body, headers)
        with connection.getresponse() as response:
            reply = Reply(response.status, response.read())
        connection.close()
        attempts[request.raw_body] += 1
        return HANG_UP if attempts[request.raw_body] < 3 else reply

    with Stub(forward) as proxy, Client(proxy.address, on_error=lambda _: None, batch_records=1000) as client:
        for number in range(5000):
            client.log(f"record {number}")
        assert client.flush(TIMEOUT)
        assert client.stats().acknowledged == 5000
        assert client.stats().retries == 10
    with Client(node.address) as client, client.query() as answer:
        assert sorted(record.text for record in answer) == sorted(f"record {number}" for number in range(5000))


def test_missing_program_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.node import program

    monkeypatch.setenv("BUCKSAW_BIN", "/nonexistent")
    with pytest.raises(AssertionError, match="the program is missing: /nonexistent"):
        program()


def test_node_with_tls(tmp_path: Path) -> None:
    """The certificates are those that the documentation of the node makes."""
    if not has_command("certs"):
        pytest.skip("the program has no TLS")
    for arguments in (["ca"], ["node", "127.0.0.1"], ["client", "shop"]):
        subprocess.run([program(), "certs", "--dir", tmp_path / "certs", *arguments], check=True, capture_output=True)
    ca, certificate, key = (str(tmp_path / "certs" / name) for name in ("ca.pem", "shop.pem", "shop.key"))
    own = [str(tmp_path / "certs" / f"127.0.0.1.{kind}") for kind in ("pem", "key")]
    context = ssl.create_default_context(cafile=ca)
    context.load_cert_chain(certificate, key)
    flags = ["--tls-cert", own[0], "--tls-key", own[1], "--tls-client-ca", ca]
    with Node(tmp_path / "data", flags, context) as node:
        with Client(node.address, ca_file=ca, certificate_file=certificate, key_file=key) as client:
            client.log("encrypted")
            assert client.flush(TIMEOUT)
            assert client.stats().acknowledged == 1
            assert [record.text for record in client.query()] == ["encrypted"]
            assert client.count() == 1
        for settings, expected in (
            ({"ca_file": ca}, "the node requires a client certificate"),
            ({}, "the certificate of the node is not signed by a trusted CA"),
        ):
            with pytest.raises(UnreachableError, match=expected):
                Client(node.address, **settings).count()  # type: ignore[arg-type]


def test_node_with_tokens(tmp_path: Path) -> None:
    if not has_command("token"):
        pytest.skip("the program has no tokens")
    rules, file = tmp_path / "auth.toml", tmp_path / "token"
    command = [program(), "token", "add", "shop", "--auth-file", str(rules), "--scope", "ingest", "--scope", "read"]
    token = subprocess.run(command, check=True, capture_output=True).stdout
    file.write_text("bks_wrong")
    failures: list[Failure] = []
    with (
        Node(tmp_path / "data", ["--auth-file", str(rules)]) as node,
        Client(node.address, token_file=file, on_error=failures.append, batch_age=0) as client,
    ):
        client.log("recognised")
        deadline = time.monotonic() + TIMEOUT
        while not client.stats().denied:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with pytest.raises(RefusedError, match="credential"):
            client.count()
        file.write_bytes(token)
        assert client.flush(TIMEOUT)
        assert client.stats().acknowledged == 1
        assert [record.text for record in client.query()] == ["recognised"]
    assert {failure.kind for failure in failures} == {"denied"}
