"""graypy: `gelf.py ADDRESS COUNT udp|tcp|http`."""

import logging
import sys

import graypy
from common import arguments, records, state

host, port, count = arguments()
transport = sys.argv[3]
if transport == "udp":
    handler = graypy.GELFUDPHandler(
        host, port, gelf_chunker=graypy.handler.GELFWarningChunker(chunk_size=100), localname="a1"
    )
elif transport == "tcp":
    handler = graypy.GELFTCPHandler(host, port, localname="a1")
else:
    handler = graypy.GELFHTTPHandler(host, port, localname="a1", timeout=10)
logger = logging.getLogger("orders")
logger.setLevel(logging.DEBUG)
logger.propagate = False
logger.addHandler(handler)
for record in records(count):
    level = logging.getLevelName(record.level if record.level != "WARN" else "WARNING")
    logger.log(level, "%s", record.message, extra={"order": record.n, "trace": record.trace_id})
    state(record.message, {"host.name": "a1"}, {"order": str(record.n), "trace": record.trace_id})
handler.close()
