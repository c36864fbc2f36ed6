"""Keys of batches: UUIDs of version 7, which contain their time."""

import os
import time
import uuid


def make_key(unix_ms: int, random: bytes) -> str:
    """Returns the key of a time in milliseconds since 1970, 48 bits, and ten random bytes."""
    raw = bytearray(unix_ms.to_bytes(6, "big") + random)
    raw[6] = raw[6] & 0x0F | 0x70
    raw[8] = raw[8] & 0x3F | 0x80
    return str(uuid.UUID(bytes=bytes(raw)))


def new_key() -> tuple[str, int]:
    """Returns a new key and its time in milliseconds since 1970."""
    unix_ms = time.time_ns() // 1_000_000
    return make_key(unix_ms, os.urandom(10)), unix_ms
