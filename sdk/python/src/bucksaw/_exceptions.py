"""Attributes of exceptions, with the names of OpenTelemetry's semantic conventions."""

import traceback
from types import TracebackType
from typing import Final

from bucksaw._records import error_text, to_text

STACKTRACE: Final = "exception.stacktrace"
#: The stack of a call, without an exception.
CALL_STACKTRACE: Final = "code.stacktrace"

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def exception_attributes(exc_info: ExcInfo | None) -> list[tuple[object, object]]:
    """Returns the attributes of an exception, none for no exception."""
    if not exc_info or exc_info[0] is None or exc_info[1] is None:
        return []
    kind, error, trace = exc_info
    module = kind.__module__
    name = kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"
    try:
        stacktrace = "".join(traceback.format_exception(kind, error, trace)).rstrip("\n")
    except Exception as failure:
        # The text of an exception comes from code of the program.
        stacktrace = error_text(failure)
    return [("exception.type", name), ("exception.message", to_text(error)), (STACKTRACE, stacktrace)]
