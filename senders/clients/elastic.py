"""The official client of Elasticsearch with its bulk helper: `elastic.py ADDRESS COUNT`."""

import json
import sys
import time

from common import arguments, records, state
from elasticsearch import Elasticsearch, TransportError, helpers

host, port, count = arguments()
client = Elasticsearch(f"http://{host}:{port}", max_retries=20, retry_on_timeout=True, retry_on_status=(429, 502, 503, 504))
client.info()


def actions():
    for record in records(count):
        document = {
            "@timestamp": f"2026-11-24T22:40:{record.n % 60:02}.{record.n % 1000:03}Z",
            "message": record.message,
            "level": record.level,
            "trace": record.trace_id,
        }
        yield {"_op_type": "create", "_index": "shop-orders", "_id": str(record.n), "_source": document}
        # The client writes documents without spaces.
        state(json.dumps(document, separators=(",", ":"), ensure_ascii=False), {"index": "shop-orders"})


def deliver(batch):
    """Sends documents as a shipper does: until the node takes them, however long it is away."""
    while True:
        try:
            return helpers.bulk(client, batch, max_retries=20, initial_backoff=0.2)
        except TransportError as error:
            print(error, file=sys.stderr)
            time.sleep(0.2)


batch = []
for action in actions():
    batch.append(action)
    if len(batch) == 50:
        deliver(batch)
        batch = []
deliver(batch)
