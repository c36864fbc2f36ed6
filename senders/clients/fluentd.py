"""fluent-logger for Python: `fluentd.py ADDRESS COUNT`. It has no acknowledgements, and sends again what a lost connection left."""

from common import arguments, fail, records, state
from fluent import sender

host, port, count = arguments()
logger = sender.FluentSender("shop", host=host, port=port, nanosecond_precision=True, bufmax=64 << 20)
for record in records(count):
    logger.emit(
        "orders", {"message": record.message, "level": record.level, "order": record.n, "trace": record.trace_id}
    )
    state(
        record.message,
        {"tag": "shop.orders"},
        {"level": record.level, "order": str(record.n), "trace": record.trace_id},
    )
logger.close()
if logger.last_error:
    fail(logger.last_error)
