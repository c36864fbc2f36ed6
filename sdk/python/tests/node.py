"""A node: the real program, on a free port that it keeps when it restarts."""

import os
import random
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

REPOSITORY = Path(__file__).parents[3]


def program() -> str:
    """Path of the program."""
    if named := os.environ.get("BUCKSAW_BIN"):
        candidates = [Path(named)]
    else:
        candidates = [REPOSITORY / "target" / kind / "bucksaw" for kind in ("release", "debug")]
    for candidate in candidates:
        if candidate.is_file():
            return str(candidate)
    raise AssertionError(
        f"the program is missing: {' and '.join(map(str, candidates))}. Build it with `make build`, or set BUCKSAW_BIN."
    )


def has_command(name: str) -> bool:
    """Says whether the program has this command: BUCKSAW_BIN may be of an earlier version."""
    return subprocess.run([program(), name, "--help"], capture_output=True).returncode == 0


def _free_port() -> int:
    """A port that no connection gets by chance while the node is down: those are higher."""
    while True:
        port = random.randrange(12_000, 32_000)
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port


class Node:
    def __init__(self, data: Path, flags: Sequence[str] = (), context: ssl.SSLContext | None = None) -> None:
        """A node with further flags. With TLS, `context` is that of its clients."""
        self._data = data
        self._flags = flags
        self._context = context
        self._port = _free_port()
        self.address = f"{'http' if context is None else 'https'}://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [program(), "serve", "--data-dir", str(self._data), "--listen", f"127.0.0.1:{self._port}"]
        for name in ("fast", "durable", "bulk", "cluster"):
            command += [f"--listen-{name}", ""]
        command += self._flags
        with self._data.with_suffix(".log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while not self._is_ready():
            assert self._process.poll() is None, self._data.with_suffix(".log").read_text()
            assert time.monotonic() < deadline, "the node is not ready after 60 s"
            time.sleep(0.02)

    def kill(self) -> None:
        """Ends the process as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.address}/-/ready", timeout=5, context=self._context) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def __enter__(self) -> "Node":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()
