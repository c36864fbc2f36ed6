"""Tokens: where they come from, where they are sent, and that they are not shown."""

import http.client
import json
import traceback
from pathlib import Path
from typing import Any

import pytest

import bucksaw
from bucksaw import Client, Failure, RefusedError, UnreachableError
from bucksaw._credentials import Credentials, parse_token
from tests.conftest import vectors
from tests.stub import TIMEOUT, Reply, Request, Stub, accept
from tests.test_reading import STATS, chunked, line, stats
from tests.test_tls import replace, wait
from tests.test_vectors import named

SECRET = "bks_secret"


@named("tokens")
def test_token(vector: dict[str, Any], tmp_path: Path) -> None:
    assert parse_token(vector["text"]) == vector["token"]
    file = tmp_path / "token"
    file.write_bytes(vector["text"].encode())
    if vector["token"] is None:
        for arguments in ({"token": vector["text"]}, {"token_file": file}):
            with pytest.raises(ValueError, match=r"ASCII|longer") as raised:
                Credentials(**arguments)
            assert "bks" not in str(raised.value)
    else:
        assert Credentials(token_file=file).authorization() == f"Bearer {vector['token']}"


@pytest.mark.parametrize("vector", vectors("token_endpoints"))
def test_endpoint(vector: dict[str, Any]) -> None:
    if vector["sent"]:
        Client(vector["endpoint"], token=SECRET).close()
    else:
        with pytest.raises(ValueError, match="without encryption") as raised:
            Client(vector["endpoint"], token=SECRET)
        assert SECRET not in str(raised.value)
    Client(vector["endpoint"], token=SECRET, insecure_token=True).close()
    Client(vector["endpoint"]).close()


@pytest.mark.parametrize(
    ("environment", "settings", "expected"),
    [
        (None, {}, None),
        (" \n", {}, None),
        (" bks_env\n", {}, "Bearer bks_env"),
        ("bks_env", {"token": "bks_set "}, "Bearer bks_set"),
        ("bks_env", {"token_file": "token"}, "Bearer bks_file"),
    ],
)
def test_each_request_has_the_token(
    stub: Stub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    environment: str | None,
    settings: dict[str, str],
    expected: str | None,
) -> None:
    if environment is not None:
        monkeypatch.setenv("BUCKSAW_TOKEN", environment)
    monkeypatch.chdir(tmp_path)
    Path("token").write_text("bks_file\n")
    with Client(stub.address, **settings) as client:  # type: ignore[arg-type]
        client.log("a")
        assert client.flush(TIMEOUT)
        stub.answer = lambda _: chunked(line("a"), stats(STATS))
        list(client.query())
        with client.tail() as tail:
            next(tail)
        stub.answer = lambda _: Reply(body=b'{"count":1,"stats":{"matched":1,"partial":false,"partial_reasons":[]}}')
        client.count()
    assert [request.target.split("?")[0] for request in stub.requests] == [
        f"/api/v1/{call}" for call in ("ingest", "query", "tail", "count")
    ]
    assert [request.headers.get("authorization") for request in stub.requests] == [expected] * 4


@pytest.mark.parametrize("status", [401, 403])
def test_token_is_replaced_without_loss(stub: Stub, tmp_path: Path, status: int) -> None:
    def answer(request: Request) -> Reply:
        if request.headers.get("authorization") == "Bearer bks_new":
            return accept(request)
        return Reply(status, b'{"error":"the credential has expired"}')

    stub.answer = answer
    file = tmp_path / "token"
    file.write_text("bks_old")
    failures: list[Failure] = []
    with Client(stub.address, token_file=file, batch_age=0, on_error=failures.append) as client:
        client.log("a")
        wait(lambda: bool(failures), "a report")
        assert failures[0].kind == "denied"
        assert failures[0].message == f"{stub.address}: the credential has expired"
        assert "1 records are sent again, because the node denies access: " in str(failures[0])
        counters = client.stats()
        assert (counters.buffered_records, sum(counters.dropped.values())) == (1, 0)
        assert counters.denied > 0
        with pytest.raises(RefusedError, match="the credential has expired") as raised:
            client.count()
        assert raised.value.status == status
        file.unlink()
        with pytest.raises(RefusedError) as raised:
            client.count()
        assert str(raised.value).endswith(f"(a changed file cannot be used: {file}: No such file or directory)")
        replace(file, b"bks_new\n")
        assert client.flush(TIMEOUT)
        counters = client.stats()
        assert (counters.acknowledged, sum(counters.dropped.values())) == (1, 0)
        assert counters.denied == counters.retries
    assert {failure.kind for failure in failures} == {"denied"}


def test_invalid_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "token"
    file.write_text(SECRET)
    for settings in (
        {"token": SECRET, "token_file": file},
        {"token_file": tmp_path / "missing"},
        {"token_file": tmp_path},
        {"token": SECRET.encode()},
    ):
        with pytest.raises(ValueError, match=r"token|regular|No such file") as raised:
            Client(**settings)
        assert SECRET not in "".join(traceback.format_exception(raised.value, limit=0))
    monkeypatch.setenv("BUCKSAW_TOKEN", f"{SECRET} and more")
    with pytest.raises(ValueError, match="BUCKSAW_TOKEN") as raised:
        Client()
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("endpoint", ["http://a:bks_secret@b", "bks_secret@b", "ftp://bks_secret@b", "a:bks/secret@b"])
def test_endpoints_have_no_password(endpoint: str) -> None:
    with pytest.raises(ValueError, match=r"…@b'") as raised:
        Client(endpoint)
    assert "secret" not in str(raised.value)


def test_token_is_not_shown(stub: Stub, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    # A program that examines its HTTP.
    monkeypatch.setattr(http.client.HTTPConnection, "debuglevel", 1)
    stub.script(Reply(503))
    # Without `on_error`, failures are written to standard error.
    client = Client([stub.address, "http://127.0.0.1:1"], token=SECRET, batch_age=0)
    handler = bucksaw.Handler(client)
    client.log("a")
    assert client.flush(TIMEOUT)
    with pytest.raises(UnreachableError) as raised:
        Client("http://127.0.0.1:1", token=SECRET).count()
    shown = [repr(value) for value in (client, handler, client._settings, client._access, client.stats())]
    shown += [
        "".join(traceback.format_exception(raised.value)),
        repr(vars(client)),
        json.dumps(vars(client), default=str),
    ]
    shown += capfd.readouterr()
    client.close()
    assert "status 503" in "".join(shown)
    assert SECRET not in "".join(shown)
