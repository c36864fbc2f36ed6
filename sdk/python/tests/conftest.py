"""Fixtures of all tests."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.node import Node
from tests.stub import Stub

REPOSITORY = Path(__file__).parents[3]


def vectors(name: str) -> list[Any]:
    """The entries of a file of vectors."""
    entries = json.loads((REPOSITORY / "sdk" / "vectors" / f"{name}.json").read_text())
    assert entries
    return list(entries)


@pytest.fixture
def stub() -> Iterator[Stub]:
    with Stub() as stub:
        yield stub


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path / "data") as node:
        yield node


@pytest.fixture(autouse=True)
def _no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that forgets an endpoint must not reach a node of the user."""
    assert "PYTEST_CURRENT_TEST" in os.environ
    monkeypatch.setenv("BUCKSAW_ADDR", "http://127.0.0.1:1")
    monkeypatch.delenv("BUCKSAW_TOKEN", raising=False)
