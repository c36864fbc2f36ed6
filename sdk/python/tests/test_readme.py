"""The code of README.md."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.node import Node
from tests.stub import TIMEOUT, Stub

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)


def run(block: str, address: str) -> str:
    """Runs a block as it is written, and returns what it prints."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", block],
        env={**os.environ, "BUCKSAW_ADDR": address, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT,
        check=True,
    ).stdout


def test_sample(node: Node) -> None:
    sample = BLOCKS[0]
    assert len(sample.splitlines()) <= 25
    lines = run(sample, node.address).splitlines()
    assert re.fullmatch(r"20\S+ \S+\+00:00 order paid 4711", lines[0])
    assert lines[1:] == ["1 errors"]


def test_dict_config(stub: Stub) -> None:
    (block,) = (block for block in BLOCKS if "LOGGING" in block)
    block = re.sub(r'"endpoints": \[.*?\]', f'"endpoints": ["{stub.address}"]', block)
    run(f"{block}\nimport logging.config\nlogging.config.dictConfig(LOGGING)\nlogging.info('m')", stub.address)
    assert [record["message"] for record in stub.records()] == ["m"]


def test_structlog(stub: Stub) -> None:
    (block,) = (block for block in BLOCKS if "structlog.configure" in block)
    assert "paid" in run(f"{block}\nstructlog.get_logger().info('paid', order=1)", stub.address)
    (record,) = stub.records()
    assert (record["message"], record["level"], record["order"]) == ("paid", "info", 1)


def test_asyncio(node: Node) -> None:
    (block,) = (block for block in BLOCKS if "async for" in block)
    indented = re.sub(r"^", "    ", block, flags=re.MULTILINE)
    log = "import asyncio, bucksaw\nwith bucksaw.Client() as client:\n    client.log('m', 'error')\n"
    program = f"{log}async def main():\n{indented}    print(number)\nasyncio.run(main())"
    assert run(program, node.address).splitlines() == ["m", "1"]


@pytest.mark.parametrize("name", ["pyproject.toml", "src/bucksaw/__init__.py"])
def test_version(name: str) -> None:
    assert re.search(r'^(?:__version__|version) = "0\.1\.0"$', (ROOT / name).read_text(), re.MULTILINE)
