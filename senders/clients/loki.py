"""python-logging-loki: `loki.py ADDRESS COUNT`. The library reports errors and does not repeat; the client does."""

import logging
import time

import logging_loki
from common import arguments, fail, records, state

host, port, count = arguments()
errors = []
handler = logging_loki.LokiHandler(url=f"http://{host}:{port}/loki/api/v1/push", tags={"app": "shop"}, version="1")
handler.handleError = errors.append
logger = logging.getLogger("orders")
logger.setLevel(logging.DEBUG)
logger.propagate = False
for record in records(count):
    level = logging.getLevelName(record.level if record.level != "WARN" else "WARNING")
    entry = logger.makeRecord("orders", level, "orders.py", 1, record.message, (), None, extra={"tags": {"host": "a1"}})
    for _ in range(300):
        errors.clear()
        handler.emit(entry)
        if not errors:
            break
        time.sleep(0.1)
    else:
        fail("the handler did not deliver a record")
    state(
        record.message,
        {"app": "shop", "host": "a1", "logger": "orders", "severity": logging.getLevelName(level).lower()},
    )
