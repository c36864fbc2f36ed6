"""Levels of records, and what the levels of logging interfaces mean."""

from typing import Final

#: Names of methods and levels in Python's logging interfaces, in lower case.
LEVEL_OF_NAME: Final[dict[str, str]] = {
    "trace": "trace",
    "debug": "debug",
    "info": "info",
    "warn": "warn",
    "warning": "warn",
    "error": "error",
    "err": "error",
    "exception": "error",
    "fatal": "fatal",
    "critical": "fatal",
}


def level_of_number(number: int) -> str:
    """Returns the level of a number of the module `logging`. A number between two levels has the lower one."""
    if number < 10:
        return "trace"
    if number < 20:
        return "debug"
    if number < 30:
        return "info"
    if number < 40:
        return "warn"
    if number < 50:
        return "error"
    return "fatal"
