"""splunk_handler: `splunk.py ADDRESS COUNT`."""

import logging

from common import arguments, records, state
from splunk_handler import SplunkHandler

host, port, count = arguments()
handler = SplunkHandler(
    host=host,
    port=str(port),
    token="00000000-0000-0000-0000-000000000000",
    index="main",
    hostname="a1",
    source="orders",
    sourcetype="shop",
    protocol="http",
    flush_interval=0.05,
    retry_count=50,
    retry_backoff=0.1,
)
logger = logging.getLogger("orders")
logger.setLevel(logging.DEBUG)
logger.propagate = False
logger.addHandler(handler)
for record in records(count):
    level = logging.getLevelName(record.level if record.level != "WARN" else "WARNING")
    logger.log(level, "%s", record.message)
    state(record.message, {"host.name": "a1", "index": "main", "source": "orders", "sourcetype": "shop"})
# Its timer thread ends with the process, even between two attempts.
handler.wait_until_empty()
handler.force_flush()
handler.shutdown()
