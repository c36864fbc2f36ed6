"""TLS of the connections of a client."""

import ssl
from typing import Final

from bucksaw._files import CERTIFICATES_BYTES_MAX, FileError, FileName, file_state, read_file

#: Sentences of all SDKs, by the codes of OpenSSL for certificates that cannot be verified.
_EXPIRED: Final = 10
_NOT_YET_VALID: Final = 9
_WRONG_NAMES: Final = frozenset({62, 64})
_UNKNOWN_ISSUERS: Final = frozenset({2, 18, 19, 20, 21})
#: Ends of the names of alerts that a node sends for the certificate of a client.
_REFUSALS: Final = (
    "ALERT_BAD_CERTIFICATE",
    "ALERT_UNSUPPORTED_CERTIFICATE",
    "ALERT_CERTIFICATE_REVOKED",
    "ALERT_CERTIFICATE_EXPIRED",
    "ALERT_CERTIFICATE_UNKNOWN",
    "ALERT_UNKNOWN_CA",
    "ALERT_DECRYPT_ERROR",
)


class Tls:
    """The certificates of a client: those of its files, which are read again when they change, or a given context."""

    __slots__ = ("_ca", "_certificate", "_context", "_given", "_key", "_loaded", "problem")

    def __init__(
        self,
        context: ssl.SSLContext | None = None,
        ca_file: FileName | None = None,
        certificate_file: FileName | None = None,
        key_file: FileName | None = None,
    ) -> None:
        """Reads no file. Raises ValueError if the settings contradict each other."""
        if (certificate_file is None) != (key_file is None):
            raise ValueError("certificate_file and key_file need each other")
        self._ca, self._certificate, self._key = ca_file, certificate_file, key_file
        if context is not None and self.has_files():
            raise ValueError("ca_file, certificate_file and key_file have no effect with an ssl_context")
        self._given = context is not None
        self._context = context
        #: State of the files before they were read.
        self._loaded: list[tuple[int, ...]] = []
        #: Why the changed files cannot be used.
        self.problem: str | None = None

    def has_files(self) -> bool:
        """Says whether a file is set, so that the endpoints must have TLS."""
        return self._ca is not None or self._certificate is not None

    def load(self) -> None:
        """Reads the files, or the certificates of the system. Raises ValueError if they cannot be used."""
        try:
            self._refresh()
        except FileError as error:
            raise ValueError(str(error)) from None

    def context(self) -> ssl.SSLContext:
        """Returns the context of a new connection. Changed files are read again until they can be used."""
        try:
            self._refresh()
            self.problem = None
        except FileError as error:
            self.problem = str(error)
        return self._context or new_context()

    def _refresh(self) -> None:
        if self._given or (self._context is not None and not self.has_files()):
            return
        state = [file_state(name) for name in (self._ca, self._certificate, self._key) if name is not None]
        if self._context is None or state != self._loaded:
            self._context = self._read()
            self._loaded = state

    def _read(self) -> ssl.SSLContext:
        context = new_context(self._ca)
        if self._certificate is not None and self._key is not None:
            for name in (self._certificate, self._key):
                read_file(name, CERTIFICATES_BYTES_MAX)
            try:
                context.load_cert_chain(self._certificate, self._key, _no_passphrase)
            except (OSError, ValueError) as error:
                raise FileError(f"{self._certificate} and {self._key}: {error}") from None
        return context


def new_context(ca_file: FileName | None = None) -> ssl.SSLContext:
    """Returns a context that verifies nodes, by a file of CAs or by those of the system. Raises FileError."""
    if ca_file is None:
        context = ssl.create_default_context()
    else:
        # Comments between the certificates may have any characters.
        certificates = read_file(ca_file, CERTIFICATES_BYTES_MAX).decode("ascii", "ignore")
        if "-----BEGIN CERTIFICATE-----" not in certificates:
            raise FileError(f"{ca_file} has no certificate in PEM format")
        try:
            context = ssl.create_default_context(cadata=certificates)
        except (OSError, ValueError) as error:
            raise FileError(f"{ca_file}: {error}") from None
    # The configuration of OpenSSL may allow older versions.
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _no_passphrase() -> str:
    """Replaces the question at the terminal, which would block."""
    raise ValueError("the private key has a passphrase")


def describe_failure(error: BaseException) -> str:
    """Returns the reason of a connection's failure, for people."""
    text = f"{type(error).__name__}: {error}"
    sentence = _sentence(error)
    return f"{sentence}: {text}" if sentence else text


def _sentence(error: BaseException) -> str | None:
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code == _EXPIRED:
            return "the certificate of the node has expired"
        if error.verify_code == _NOT_YET_VALID:
            return "the certificate of the node is not valid yet"
        if error.verify_code in _WRONG_NAMES:
            return "the certificate of the node is not for this name"
        if error.verify_code in _UNKNOWN_ISSUERS:
            return "the certificate of the node is not signed by a trusted CA"
    elif isinstance(error, ssl.SSLError) and isinstance(error.reason, str):
        if error.reason.endswith("ALERT_CERTIFICATE_REQUIRED"):
            return "the node requires a client certificate"
        if error.reason.endswith(_REFUSALS):
            return "the node refuses the client certificate"
    return None
