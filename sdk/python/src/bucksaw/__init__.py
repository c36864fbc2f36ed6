"""Sends logs to Bucksaw, and reads them back.

    import bucksaw, logging
    logging.getLogger().addHandler(bucksaw.Handler(labels={"service.name": "shop"}))

`Client` is the core; `Handler` plugs into the module `logging`, and `bucksaw.structlog` into structlog.
"""

from bucksaw._answers import Answer, Tail
from bucksaw._buffer import Stats
from bucksaw._client import Client
from bucksaw._decoder import AnswerStats, Notice, Record
from bucksaw._reports import Failure
from bucksaw.errors import (
    Error,
    IncompleteAnswerError,
    InvalidAnswerError,
    PartialAnswerError,
    RefusedError,
    UnreachableError,
)
from bucksaw.handler import Handler

__all__ = [
    "Answer",
    "AnswerStats",
    "Client",
    "Error",
    "Failure",
    "Handler",
    "IncompleteAnswerError",
    "InvalidAnswerError",
    "Notice",
    "PartialAnswerError",
    "Record",
    "RefusedError",
    "Stats",
    "Tail",
    "UnreachableError",
]

__version__ = "0.1.0"
