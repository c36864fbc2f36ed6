"""Endpoints with TLS."""

import socket
import ssl
import threading

import pytest
import trustme

from bucksaw import Client, Failure
from tests.stub import TIMEOUT, Stub
from tests.test_reading import STATS, chunked, line, stats
from tests.test_sending import threads


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def server(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    return context


@pytest.fixture
def client_context(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def wrap(context: ssl.SSLContext, connection: socket.socket) -> socket.socket:
    return context.wrap_socket(connection, server_side=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_tls(server: ssl.SSLContext, client_context: ssl.SSLContext, host: str) -> None:
    with Stub(tls=lambda connection: wrap(server, connection)) as stub:
        address = stub.address.replace("127.0.0.1", host)
        with Client(address, ssl_context=client_context, batch_records=1) as client:
            for number in range(5):
                client.log(f"record {number}", attributes={"a": "x" * 5000})
            assert client.flush(TIMEOUT)
            assert client.stats().acknowledged == 5
            assert stub.connections == 1
            stub.answer = lambda _: chunked(line("a"), stats(STATS))
            assert len(list(client.query())) == 1
    assert stub.requests[0].headers["host"] == address.removeprefix("https://")


def test_unknown_certificate_is_refused(server: ssl.SSLContext) -> None:
    failures: list[Failure] = []
    with Stub(tls=lambda connection: wrap(server, connection)) as stub:
        client = Client(stub.address, on_error=failures.append, batch_age=0, close_time=0.1)
        client.log("a")
        assert not client.close()
        assert stub.requests == []
    assert failures[0].kind == "retry"
    assert "CERTIFICATE_VERIFY_FAILED" in failures[0].message


def test_close_during_the_handshake(client_context: ssl.SSLContext) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"https://127.0.0.1:{silent.getsockname()[1]}"
        client = Client(address, ssl_context=client_context, on_error=lambda _: None, batch_age=0, close_time=0.1)
        client.log("a")
        assert not client.close()
        assert not threads()


def test_close_during_a_request(server: ssl.SSLContext, client_context: ssl.SSLContext) -> None:
    release = threading.Event()
    with Stub(tls=lambda connection: wrap(server, connection)) as stub:
        stub.script(lambda _: (release.wait(TIMEOUT), chunked())[1])
        client = Client(stub.address, ssl_context=client_context, on_error=lambda _: None, batch_age=0, close_time=0.1)
        client.log("a")
        stub.wait_for(1)
        assert not client.close()
        assert not threads()
        release.set()
