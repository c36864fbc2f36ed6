"""OpenTelemetry's SDK for Python, over HTTP or gRPC: `otlp.py ADDRESS COUNT http|grpc [DURABILITY]`."""

import logging
import sys

from common import arguments, fail, records, state
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource

host, port, count = arguments()
if sys.argv[3] == "grpc":
    from grpc import Compression
    from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter

    exporter = OTLPLogExporter(
        endpoint=f"http://{host}:{port}",
        insecure=True,
        timeout=30,
        compression=Compression.Gzip,
        headers=(("bucksaw-durability", sys.argv[4]), ("bucksaw-label", "env=prod")),
    )
else:
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter

    exporter = OTLPLogExporter(endpoint=f"http://{host}:{port}/v1/logs", timeout=30)

resource = Resource.create({"service.name": "shop", "service.namespace": "store", "team": "checkout"})
provider = LoggerProvider(resource=resource)
provider.add_log_record_processor(BatchLogRecordProcessor(exporter, schedule_delay_millis=20, max_export_batch_size=64))
logger = logging.getLogger("shop.orders")
logger.setLevel(logging.DEBUG)
logger.propagate = False
logger.addHandler(LoggingHandler(logger_provider=provider))

labels = {"service.name": "shop", "service.namespace": "store"}
if sys.argv[3] == "grpc":
    labels["env"] = "prod"
for record in records(count):
    level = logging.getLevelName(record.level if record.level != "WARN" else "WARNING")
    logger.log(level, record.message, extra={"order": record.n, "trace": record.trace_id})
    state(
        record.message,
        labels,
        {"severity_text": record.level, "order": str(record.n), "trace": record.trace_id, "team": "checkout"},
    )
if not provider.force_flush(60_000):
    fail("the exporter did not deliver everything")
provider.shutdown()
