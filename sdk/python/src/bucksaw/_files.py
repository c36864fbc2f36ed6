"""Files with secrets and certificates."""

import os
import stat
from typing import Final

#: What a setting takes as the name of a file.
FileName = str | os.PathLike[str]

#: Bytes of a file with certificates. All public CAs have a quarter of it.
CERTIFICATES_BYTES_MAX: Final = 1 << 20


class FileError(Exception):
    """A file cannot be used. The message names it, and has nothing of its content."""


def read_file(name: FileName, bytes_max: int) -> bytes:
    """Returns the content of a file. Raises FileError if it is longer, or of a kind that could block."""
    path = os.fspath(name)
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - `Path` has no advantage here.
            raise FileError(f"{path} is not a regular file")
        with open(path, "rb") as file:  # noqa: PTH123
            content = file.read(bytes_max + 1)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from None
    if len(content) > bytes_max:
        raise FileError(f"{path} is longer than {bytes_max} bytes")
    return content


def file_state(name: FileName) -> tuple[int, ...]:
    """Returns what differs after a change of the file. Raises FileError if there is none."""
    try:
        state = os.stat(name)  # noqa: PTH116
    except OSError as error:
        raise FileError(f"{os.fspath(name)}: {error.strerror}") from None
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns
