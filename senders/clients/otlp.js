// OpenTelemetry's SDK, over HTTP (JSON) or gRPC: `otlp.js ADDRESS COUNT http|grpc`.

const { BatchLogRecordProcessor, LoggerProvider } = require("@opentelemetry/sdk-logs");
const { resourceFromAttributes } = require("@opentelemetry/resources");
const { host, port, records, state, run } = require("./common.js");

const over = process.argv[4];
const { OTLPLogExporter } = require(`@opentelemetry/exporter-logs-otlp-${over}`);
const exporter = new OTLPLogExporter({ url: `http://${host}:${port}${over === "http" ? "/v1/logs" : ""}` });
const SEVERITIES = { INFO: 9, WARN: 13, ERROR: 17, DEBUG: 5 };

run(async () => {
  const resource = resourceFromAttributes({ "service.name": "shop", team: "checkout" });
  const processor = new BatchLogRecordProcessor(exporter, { scheduledDelayMillis: 20, maxExportBatchSize: 64 });
  const provider = new LoggerProvider({ resource, processors: [processor] });
  const logger = provider.getLogger("shop.orders", "1.2");
  for await (const { n, message, level, trace } of records()) {
    const attributes = { order: n, pod: { name: "web-1" }, trace };
    logger.emit({ body: message, severityText: level, severityNumber: SEVERITIES[level], attributes });
    state(message, { "service.name": "shop" }, { severity_text: level, order: String(n), trace, team: "checkout" });
  }
  await provider.forceFlush();
  await provider.shutdown();
});
