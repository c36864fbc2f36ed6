"""The token of a client."""

import ipaddress
import os
import re
from collections.abc import Sequence
from typing import Final

from bucksaw._files import FileError, FileName, read_file
from bucksaw._settings import Endpoint

#: Bytes of a token. A node takes no longer one.
TOKEN_BYTES_MAX: Final = 4096
#: Environment variable with the token.
TOKEN_VARIABLE: Final = "BUCKSAW_TOKEN"  # noqa: S105
_BLANKS: Final = " \t\r\n"
_VISIBLE: Final = re.compile("[!-~]*")


class Credentials:
    """The token that requests are sent with, if there is one. Its text forms do not show it."""

    __slots__ = ("_file", "_token", "problem")

    def __init__(self, token: str | None = None, token_file: FileName | None = None) -> None:
        """Takes the token, or else reads the file, or else the environment.

        Raises ValueError if there is no usable token where one is expected.
        """
        self._file = token_file
        self._token: str | None = None
        #: Why the file cannot be used at the moment.
        self.problem: str | None = None
        if token_file is not None:
            if token is not None:
                raise ValueError("token and token_file are both set")
            try:
                self._token = _read(token_file)
            except FileError as error:
                raise ValueError(str(error)) from None
        elif token is not None:
            self._token = _parse("token", token)
        else:
            text = os.environ.get(TOKEN_VARIABLE, "")
            if text.strip(_BLANKS):
                self._token = _parse(f"the environment variable {TOKEN_VARIABLE}", text)

    def authorization(self) -> str | None:
        """Returns the header of a request. Reads the file again."""
        if self._file is not None:
            try:
                self._token = _read(self._file)
                self.problem = None
            except FileError as error:
                self.problem = str(error)
        return None if self._token is None else f"Bearer {self._token}"

    def check_secrecy(self, endpoints: Sequence[Endpoint]) -> None:
        """Raises ValueError if the token would be sent to another machine without encryption."""
        for endpoint in endpoints:
            if self._token is not None and not endpoint.tls and not _is_loopback(endpoint.host):
                raise ValueError(
                    f"the token would be sent to {endpoint} without encryption: use https, or set insecure_token"
                )


def parse_token(text: str) -> str | None:
    """Returns the token in a text, `None` if it has none that can be used."""
    token = text.strip(_BLANKS)
    return token if 0 < len(token) <= TOKEN_BYTES_MAX and _VISIBLE.fullmatch(token) else None


def _parse(name: str, text: object) -> str:
    token = parse_token(text) if isinstance(text, str) else None
    if token is None:
        # Without the text.
        raise ValueError(f"{name}: expected 1 to {TOKEN_BYTES_MAX} visible characters of ASCII")
    return token


def _read(name: FileName) -> str:
    text = read_file(name, TOKEN_BYTES_MAX + len(_BLANKS)).decode("latin-1")
    token = parse_token(text)
    if token is None:
        raise FileError(f"the token file {os.fspath(name)} has no token of visible characters of ASCII")
    return token


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.lower() == "localhost"
    return address.is_loopback and getattr(address, "ipv4_mapped", None) is None
