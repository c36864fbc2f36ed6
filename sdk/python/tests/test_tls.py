"""Endpoints with TLS."""

import datetime
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cryptography.hazmat.primitives.serialization
import pytest
import trustme

from bucksaw import Client, Failure, UnreachableError
from bucksaw._tls import new_context
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


class Files:
    """Certificates in files, of an authority of their own."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.directory = directory
        self.authority = trustme.CA()
        self.ca = directory / "ca.pem"
        self.authority.cert_pem.write_to_path(str(self.ca))

    def issue(self, name: str, days: tuple[int, int] = (-1, 1)) -> tuple[Path, Path]:
        """Makes a certificate, valid from and to these days from now, and returns its file and that of its key."""
        now = datetime.datetime.now(datetime.timezone.utc)
        start, end = (now + datetime.timedelta(days=day) for day in days)
        made = self.authority.issue_cert(name, not_before=start, not_after=end)
        certificate, key = self.directory / f"{name}.pem", self.directory / f"{name}.key"
        made.cert_chain_pems[0].write_to_path(str(certificate))
        made.private_key_pem.write_to_path(str(key))
        return certificate, key

    def server(self, name: str = "127.0.0.1", days: tuple[int, int] = (-1, 1), clients: "Files | None" = None) -> Stub:
        """A server with such a certificate, which demands one of its clients if they have an authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.issue(name, days))
        if clients is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(clients.ca)
        return Stub(tls=lambda connection: wrap(context, connection))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "own")


@pytest.fixture
def foreign(tmp_path: Path) -> Files:
    return Files(tmp_path / "foreign")


def check_failure(stub: Stub, expected: str, **settings: Any) -> None:
    """A batch and a count fail for this reason, and the records stay in the buffer."""
    failures: list[Failure] = []
    client = Client(stub.address, on_error=failures.append, batch_age=0, close_time=0, **settings)
    client.log("a")
    # A server may close the connection before the reason of its refusal is read, so not always the first attempt.
    wait(lambda: any(failure.kind == "retry" and expected in failure.message for failure in failures), failures)
    assert client.stats().buffered_records == 1
    wait(lambda: expected in str(count_error(client)), expected)
    client.close()
    assert stub.requests == []


def count_error(client: Client) -> BaseException:
    with pytest.raises(UnreachableError) as raised:
        client.count()
    return raised.value


def wait(condition: Callable[[], bool], what: object) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


@pytest.mark.parametrize("scheme", ["https://", ""])
def test_file_of_the_ca(files: Files, scheme: str) -> None:
    with files.server() as stub:
        address = scheme + stub.address.removeprefix("https://")
        with Client(address, ca_file=str(files.ca), batch_age=0) as client:
            client.log("a")
            assert client.flush(TIMEOUT)
            assert client.stats().acknowledged == 1
            stub.answer = lambda _: chunked(line("a"), stats(STATS))
            assert len(list(client.query())) == 1


def test_unknown_issuer(files: Files, foreign: Files) -> None:
    with files.server() as stub:
        expected = "the certificate of the node is not signed by a trusted CA: SSLCertVerificationError"
        check_failure(stub, expected)
        check_failure(stub, expected, ca_file=foreign.ca)


@pytest.mark.parametrize(
    ("name", "days", "expected"),
    [
        ("a.example", (-1, 1), "the certificate of the node is not for this name: "),
        ("127.0.0.2", (-1, 1), "the certificate of the node is not for this name: "),
        ("127.0.0.1", (-2, -1), "the certificate of the node has expired: "),
        ("127.0.0.1", (1, 2), "the certificate of the node is not valid yet: "),
    ],
)
def test_wrong_certificate(files: Files, name: str, days: tuple[int, int], expected: str) -> None:
    with files.server(name, days) as stub:
        check_failure(stub, expected, ca_file=files.ca)


def test_client_certificate(files: Files, foreign: Files) -> None:
    with files.server(clients=files) as stub:
        check_failure(stub, "the node requires a client certificate: ", ca_file=files.ca)
        certificate, key = foreign.issue("client.example")
        expected = "the node refuses the client certificate: "
        check_failure(stub, expected, ca_file=files.ca, certificate_file=certificate, key_file=key)
        certificate, key = files.issue("client.example")
        with Client(stub.address, ca_file=files.ca, certificate_file=certificate, key_file=key) as client:
            client.log("a")
            assert client.flush(TIMEOUT)
            assert client.stats().acknowledged == 1


def replace(name: Path, content: bytes) -> None:
    fresh = name.with_suffix(".new")
    fresh.write_bytes(content)
    fresh.replace(name)


def test_changed_files_are_used(files: Files, foreign: Files, tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_bytes(foreign.ca.read_bytes())
    certificate, key = files.issue("client.example", (-2, -1))
    with files.server(clients=files) as stub:
        client = Client(
            stub.address,
            ca_file=ca,
            certificate_file=certificate,
            key_file=key,
            batch_age=0,
            close_time=0,
            on_error=lambda _: None,
        )
        client.log("a")

        def fails(expected: str) -> None:
            wait(lambda: expected in str(count_error(client)), expected)

        fails("not signed by a trusted CA")
        replace(ca, b"no certificate")
        fails(f"(a changed file cannot be used: {ca} has no certificate in PEM format)")
        replace(ca, files.ca.read_bytes())
        fails("the node refuses the client certificate")
        old_key = key.read_bytes()
        files.issue("client.example")
        new_key = key.read_bytes()
        replace(key, old_key)
        fails("KEY_VALUES_MISMATCH")
        replace(key, new_key)
        assert client.flush(TIMEOUT)
        assert client.stats().acknowledged == 1
        client.close()


def test_invalid_files(files: Files, tmp_path: Path) -> None:
    certificate, key = files.issue("client.example")
    locked = tmp_path / "locked.key"
    secret = cryptography.hazmat.primitives.serialization.load_pem_private_key(key.read_bytes(), None)
    locked.write_bytes(
        secret.private_bytes(
            cryptography.hazmat.primitives.serialization.Encoding.PEM,
            cryptography.hazmat.primitives.serialization.PrivateFormat.PKCS8,
            cryptography.hazmat.primitives.serialization.BestAvailableEncryption(b"x"),
        )
    )
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for settings, expected in (
        ({"ca_file": tmp_path / "missing"}, "No such file"),
        ({"ca_file": fifo}, "is not a regular file"),
        ({"ca_file": key}, "has no certificate in PEM format"),
        ({"certificate_file": certificate}, "need each other"),
        ({"key_file": key}, "need each other"),
        ({"certificate_file": certificate, "key_file": certificate}, "client.example.pem"),
        ({"certificate_file": certificate, "key_file": locked}, "passphrase"),
        ({"ca_file": files.ca, "ssl_context": ssl.create_default_context()}, "no effect"),
        ({"ca_file": files.ca, "endpoints": "http://127.0.0.1"}, "are for https"),
    ):
        with pytest.raises(ValueError, match=re.escape(expected)):
            Client(**{"endpoints": "127.0.0.1", **settings})  # type: ignore[arg-type]


def test_oldest_version() -> None:
    assert new_context().minimum_version == ssl.TLSVersion.TLSv1_2
    assert new_context().verify_mode == ssl.CERT_REQUIRED
    assert new_context().check_hostname


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
