"""Settings of a client, checked when it is made."""

import os
import re
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

Durability = Literal["fast", "durable", "bulk"]
WhenFull = Literal["drop", "block"]

#: Port of an endpoint without a scheme and a port.
DEFAULT_PORT: Final = 7650
DEFAULT_ENDPOINT: Final = "127.0.0.1:7650"
#: A day. The clocks of locks and sockets have limits of their own, which are larger.
SECONDS_MAX: Final = 86_400
#: A node accepts a longer body in parts only, or not at all.
BATCH_BYTES_MAX: Final = 8 << 20
BATCH_RECORDS_MAX: Final = 32_768
#: Limits of a node.
LABELS_MAX: Final = 64
LABEL_NAME_BYTES_MAX: Final = 128
LABEL_VALUE_BYTES_MAX: Final = 1024
_LABEL_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_.-]*")
_USER: Final = re.compile("^(.*?//)?.*@", re.DOTALL)
#: Environment variable with a list of endpoints, separated by commas.
ADDRESS_VARIABLE: Final = "BUCKSAW_ADDR"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address of a node."""

    host: str
    #: `None` is the port of the scheme.
    port: int | None
    tls: bool
    #: Path before that of the API, without a slash at its end.
    path: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port is None else f":{self.port}"
        return f"{'https' if self.tls else 'http'}://{host}{port}{self.path}"


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a client. Times are in seconds."""

    endpoints: tuple[Endpoint, ...]
    labels: tuple[tuple[str, str], ...]
    durability: Durability
    batch_bytes: int
    batch_records: int
    batch_age: float
    buffer_bytes: int
    when_full: WhenFull
    block_time: float
    request_time: float
    close_time: float

    def __post_init__(self) -> None:
        if self.durability not in get_args(Durability):
            raise ValueError(f"durability is one of {', '.join(get_args(Durability))}, not {self.durability!r}")
        if self.when_full not in get_args(WhenFull):
            raise ValueError(f"when_full is one of {', '.join(get_args(WhenFull))}, not {self.when_full!r}")
        for name in ("batch_bytes", "batch_records", "buffer_bytes", "request_time"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be greater than 0")
        for name, most in (("batch_bytes", BATCH_BYTES_MAX), ("batch_records", BATCH_RECORDS_MAX)):
            if getattr(self, name) > most:
                raise ValueError(f"{name} must not be greater than {most}")
        for name in ("batch_age", "block_time", "close_time"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be less than 0")
        for name in ("batch_age", "block_time", "close_time", "request_time"):
            if getattr(self, name) > SECONDS_MAX:
                raise ValueError(f"{name} must not be greater than {SECONDS_MAX} s")

    def ingest_target(self, endpoint: Endpoint) -> str:
        """Returns the path and the parameters of requests with batches."""
        labels = "".join(f"&label={quote(f'{name}={value}')}" for name, value in self.labels)
        return (
            f"{endpoint.path}/api/v1/ingest?durability={self.durability}&time_field=time&message_field=message{labels}"
        )


def quote(text: str) -> str:
    """Returns a value of a query string, percent-encoded."""
    return urllib.parse.quote(text, safe="")


def parse_endpoints(endpoints: str | Sequence[str] | None, needs_tls: bool = False) -> tuple[Endpoint, ...]:
    """Returns endpoints from texts, or from the environment, or the default one.

    With `needs_tls` all of them have TLS, also those without a scheme.
    """
    if endpoints is None:
        endpoints = os.environ.get(ADDRESS_VARIABLE, "")
        if not endpoints.strip():
            endpoints = DEFAULT_ENDPOINT
    if isinstance(endpoints, str):
        endpoints = endpoints.split(",")
    parsed = tuple(_parse_endpoint(endpoint.strip(), needs_tls) for endpoint in endpoints if endpoint.strip())
    if not parsed:
        raise ValueError("a client needs at least one endpoint")
    return parsed


def _parse_endpoint(text: str, needs_tls: bool) -> Endpoint:
    """Takes `http://10.0.0.1:7650`, `localhost:7650`, `localhost`, and `:7650` for this machine."""
    has_scheme = "://" in text
    # Without a user and a password, which an endpoint cannot have.
    shown = repr(_USER.sub(r"\1…@", text))
    scheme = "https" if needs_tls else "http"
    url = urllib.parse.urlsplit(text if has_scheme else f"{scheme}://{'127.0.0.1' if text[0] == ':' else ''}{text}")
    if url.scheme not in ("http", "https"):
        raise ValueError(f"endpoint {shown}: the scheme is http or https")
    if not url.hostname or not url.netloc.isascii() or "@" in url.netloc:
        raise ValueError(f"endpoint {shown}: expected http://HOST:PORT, without a user name")
    if needs_tls and url.scheme != "https":
        raise ValueError(f"endpoint {shown}: ca_file, certificate_file and key_file are for https")
    if url.query or url.fragment:
        raise ValueError(f"endpoint {shown}: an endpoint has no parameters")
    try:
        port = DEFAULT_PORT if url.port is None and not has_scheme else url.port
    except ValueError as error:
        raise ValueError(f"endpoint {shown}: {error}") from None
    path = urllib.parse.quote(url.path.rstrip("/"), safe="/%~-._!$&'()*+,;=:@")
    return Endpoint(url.hostname, port, url.scheme == "https", path)


def parse_labels(labels: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """Returns labels in the order of their names, without those that have no value."""
    parsed = []
    for name, value in (labels or {}).items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise ValueError(f"label {name!r}: names and values are texts")
        if not _LABEL_NAME.fullmatch(name):
            raise ValueError(
                f"label {name!r}: a name is a letter or `_`, followed by letters, digits, `_`, `.` and `-`"
            )
        if len(name) > LABEL_NAME_BYTES_MAX or len(value.encode()) > LABEL_VALUE_BYTES_MAX:
            raise ValueError(
                f"label {name[:40]!r} is too long: a name may have {LABEL_NAME_BYTES_MAX} bytes, "
                f"a value {LABEL_VALUE_BYTES_MAX}"
            )
        if value:
            parsed.append((name, value))
    if len(parsed) > LABELS_MAX:
        raise ValueError(f"a client has at most {LABELS_MAX} labels")
    return tuple(sorted(parsed))
