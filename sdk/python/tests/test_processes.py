"""Ends of processes, and forks. Each test runs programs of its own."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stub import TIMEOUT, Reply, Request, Stub, accept

SOURCES = Path(__file__).parents[1] / "src"


def run(program: str, stub: Stub, *, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs a program that sends to the stub."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env={**os.environ, "BUCKSAW_ADDR": stub.address, "PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=check,
    )


def messages(stub: Stub) -> list[str]:
    return sorted(record["message"] for record in stub.records())


def test_end_of_the_process_sends_everything(stub: Stub) -> None:
    result = run("import bucksaw; bucksaw.Client(batch_age=1000).log('a')", stub)
    assert messages(stub) == ["a"]
    assert result.stderr == ""


def test_records_of_functions_at_the_end(stub: Stub) -> None:
    """Functions that were registered later run earlier."""
    run(
        """
import atexit, bucksaw, logging
atexit.register(lambda: logging.error("dropped"))
handler = bucksaw.Handler(batch_age=1000)
logging.getLogger().addHandler(handler)
atexit.register(lambda: logging.error("sent"))
""",
        stub,
    )
    assert messages(stub) == ["sent"]


def test_exception_at_the_end(stub: Stub) -> None:
    result = run("import bucksaw; bucksaw.Client().log('a'); raise SystemExit(3)", stub, check=False)
    assert result.returncode == 3
    assert messages(stub) == ["a"]


def test_end_of_the_process_waits_for_the_close_time_only() -> None:
    with Stub(lambda _request: Reply(503)) as stub:
        result = run("import bucksaw; bucksaw.Client(close_time=0.1).log('a')", stub)
    lines = result.stderr.splitlines()
    assert lines[0].startswith("bucksaw: 1 records are sent again: ")
    assert lines[-1] == "bucksaw: 1 records were dropped: the client is closed"


FORK = """
import bucksaw, os, stat
client = bucksaw.Client(batch_age=1000, labels={"service.name": "shop"})
client.log("before")
"""


def test_fork(stub: Stub) -> None:
    """The parent's record is sent once, by the parent; each process sends its own."""
    run(
        FORK
        + """
child = os.fork()
client.log("child" if child == 0 else "parent")
stats = client.stats()
assert stats.logged == (1 if child == 0 else 2), stats
if child:
    assert os.waitpid(child, 0)[1] == 0
""",
        stub,
    )
    assert messages(stub) == ["before", "child", "parent"]


def test_fork_with_an_open_connection(stub: Stub) -> None:
    run(
        FORK
        + """
assert client.flush(20)
for number in range(3):
    if os.fork() == 0:
        # The child has no copy of the parent's connection.
        for descriptor in range(3, 100):
            try:
                assert not stat.S_ISSOCK(os.fstat(descriptor).st_mode)
            except OSError:
                pass
        client.log(f"child {number}")
        assert client.flush(20)
        os._exit(0)
client.log("parent")
assert client.flush(20)
for _ in range(3):
    assert os.wait()[1] == 0
""",
        stub,
    )
    assert messages(stub) == ["before", "child 0", "child 1", "child 2", "parent"]
    assert stub.connections == 4


def test_fork_while_an_answer_arrives() -> None:
    """At the fork, the thread of the parent has the lock of the reader of its connection."""
    release = threading.Event()

    def parts() -> Iterator[bytes]:
        yield b'{"accepted":'
        assert release.wait(TIMEOUT)
        yield b'1,"rejected":0}'

    def answer(request: Request) -> Reply:
        if request.records[0]["message"] == "before":
            return Reply(200, headers={"Content-Length": "27"}, parts=parts())
        release.set()
        return accept(request)

    with Stub(answer) as stub:
        run(
            """
import bucksaw, os, sys, time
def functions(frame):
    while frame:
        yield frame.f_code.co_name
        frame = frame.f_back
client = bucksaw.Client(batch_age=0)
client.log("before")
while not any("read_parts" in functions(frame) for frame in sys._current_frames().values()):
    time.sleep(0.01)
if os.fork() == 0:
    client.log("child")
    os._exit(0 if client.flush(20) else 1)
assert os.wait()[1] == 0
assert client.flush(20)
""",
            stub,
        )
        assert messages(stub) == ["before", "child"]


def test_sending_imports_nothing(stub: Stub) -> None:
    """A fork during an import in the background thread would break the module in the child."""
    run(
        """
import bucksaw, sys
client = bucksaw.Client()
before = set(sys.modules)
client.log("a", attributes={"text": "x" * 2000})
assert client.flush(20)
assert set(sys.modules) == before, set(sys.modules) - before
""",
        stub,
    )


def test_fork_while_other_threads_log(stub: Stub) -> None:
    """A fork may come while another thread has the lock."""
    run(
        """
import bucksaw, os, threading
client = bucksaw.Client(batch_records=50)
stop = threading.Event()
def log():
    while not stop.is_set():
        client.log("noise")
threads = [threading.Thread(target=log, daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()
children = []
for number in range(20):
    child = os.fork()
    if child == 0:
        client.log(f"child {number}")
        os._exit(0 if client.close() else 1)
    children.append(child)
for child in children:
    assert os.waitpid(child, 0)[1] == 0
stop.set()
for thread in threads:
    thread.join()
assert client.close()
stats = client.stats()
assert stats.logged == stats.acknowledged + stats.dropped["full"], stats
""",
        stub,
    )
    assert [message for message in messages(stub) if message != "noise"] == sorted(f"child {n}" for n in range(20))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(stub: Stub, method: str, tmp_path: Path) -> None:
    """Its processes do not run the functions of `atexit` after a fork."""
    script = tmp_path / "script.py"
    script.write_text(
        f"""
import bucksaw, multiprocessing
client = bucksaw.Client(batch_age=1000)
def work(number):
    client.log(f"child {{number}}")
if __name__ == "__main__":
    client.log("parent")
    context = multiprocessing.get_context("{method}")
    processes = [context.Process(target=work, args=(number,)) for number in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
"""
    )
    subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "BUCKSAW_ADDR": stub.address, "PYTHONPATH": str(SOURCES)},
        timeout=TIMEOUT,
        check=True,
    )
    assert messages(stub) == ["child 0", "child 1", "parent"]


def test_batch_that_was_sent_before_the_fork_is_not_sent_again() -> None:
    keys: list[str] = []

    def answer(request: Request) -> Reply:
        keys.append(request.key)
        return Reply(503) if len(keys) == 1 else accept(request)

    with Stub(answer) as stub:
        run(
            """
import bucksaw, os, threading
failed = threading.Event()
client = bucksaw.Client(batch_records=1, on_error=lambda failure: failed.set())
client.log("parent")
assert failed.wait(20)
if os.fork() == 0:
    client.log("child")
else:
    assert os.wait()[1] == 0
""",
            stub,
        )
        assert messages(stub) == ["child", "parent"]
    assert len(keys) == 3
    assert len(set(keys)) == 2


def test_two_clients_at_the_end(stub: Stub) -> None:
    run("import bucksaw; [bucksaw.Client().log(name) for name in 'ab']", stub)
    assert messages(stub) == ["a", "b"]


def test_interrupted_program(stub: Stub) -> None:
    result = run(
        # A shell starts programs in the background with this signal ignored.
        "import bucksaw, os, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "bucksaw.Client().log('a'); os.kill(os.getpid(), signal.SIGINT)",
        stub,
        check=False,
    )
    assert "KeyboardInterrupt" in result.stderr
    assert messages(stub) == ["a"]
