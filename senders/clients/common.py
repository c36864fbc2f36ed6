"""What every client does: it sends numbered records one after the other, and states each one for the test.

A client is called with the address of a listener and the number of records. For each record that it has given to its library it
prints one JSON object: `line`, `labels` and `attributes`, as a node is expected to store them. It ends when its library has
delivered everything, with an error if that is known to have failed.
"""

import json
import sys
import time

# Time between two records, so that a node can be restarted while they are sent.
PAUSE_S = 0.002

LEVELS = ["INFO", "WARN", "ERROR", "DEBUG"]


class Record:
    """The record with number `n`."""

    def __init__(self, n):
        self.n = n
        self.level = LEVELS[n % len(LEVELS)]
        self.trace_id = f"{0x4BF92F3577B34DA6A3CE929D0E000000 + n:032x}"
        self.message = f'order {n} of "Müller & Söhne" took {n * 7 % 1000} ms, 100 % done'
        if n % 7 == 3:
            self.message += "\n  at Checkout.pay(Checkout.java:42)\n  at Main.main"


def arguments():
    """The host, the port and the number of records."""
    host, port = sys.argv[1].rsplit(":", 1)
    return host, int(port), int(sys.argv[2])


def records(count):
    for n in range(count):
        yield Record(n)
        time.sleep(PAUSE_S)


def state(line, labels=None, attributes=None):
    """States a record that was given to the library."""
    print(json.dumps({"line": line, "labels": labels or {}, "attributes": attributes or {}}), flush=True)


def fail(reason):
    print(reason, file=sys.stderr)
    sys.exit(1)
