// Bucksaw's own service by its published .proto, which is loaded when the client starts: `bucksaw_grpc.js ADDRESS COUNT`.

const { randomUUID } = require("node:crypto");
const path = require("node:path");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");
const { host, port, records, state, run } = require("./common");

const BATCH_RECORDS = 10;
const proto = path.join(__dirname, "../../proto");
const definition = loader.loadSync("bucksaw/v1/bucksaw.proto", { includeDirs: [proto], keepCase: true, longs: Number });
const { Bucksaw } = grpc.loadPackageDefinition(definition).bucksaw.v1;
const labels = { "service.name": "shop" };

/** Sends a batch on a call, and waits for its reply. */
function reply(call, batch) {
  return new Promise((resolve, reject) => {
    call.once("data", resolve).once("error", reject).once("end", reject);
    call.write(batch);
  }).finally(() => {
    // An error that no listener takes would end the client.
    call.removeAllListeners().on("error", () => {});
  });
}

run(async () => {
  const client = new Bucksaw(`${host}:${port}`, grpc.credentials.createInsecure(), {
    "grpc.initial_reconnect_backoff_ms": 50,
    "grpc.max_reconnect_backoff_ms": 200,
  });
  let call;
  let sequence = 0;
  let batch = [];

  /** Sends what was collected until the node has replied to it. */
  async function flush() {
    const sent = { sequence: ++sequence, idempotency_key: randomUUID(), labels, records: batch };
    batch = [];
    for (;;) {
      call ??= client.Ingest();
      try {
        const got = await reply(call, sent);
        if (!got.code && got.sequence === sent.sequence && got.accepted === sent.records.length) return;
        if (!got.retry) throw Object.assign(new Error(`refused: ${JSON.stringify(got)}`), { isFinal: true });
      } catch (error) {
        if (error?.isFinal) throw error;
        call.cancel();
        call = undefined;
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  for await (const { n, message, level, trace } of records()) {
    const attributes = { trace, level, order: String(n) };
    const pairs = Object.entries(attributes).map(([name, value]) => ({ name, value: Buffer.from(value) }));
    batch.push({ line: Buffer.from(message), attributes: pairs });
    state(message, labels, attributes);
    if (batch.length === BATCH_RECORDS) await flush();
  }
  if (batch.length > 0) await flush();
  call?.end();
  client.close();
});
