// Elasticsearch's client, by its bulk helper: `elastic.js ADDRESS COUNT`.

const { Client } = require("@elastic/elasticsearch");
const { host, port, records, state, run } = require("./common.js");

run(async () => {
  const client = new Client({ node: `http://${host}:${port}`, maxRetries: 20, requestTimeout: 10_000 });
  async function* documents() {
    for await (const { n, message, level, trace } of records()) {
      const document = { "@timestamp": new Date().toISOString(), message, level, order: n, trace };
      state(JSON.stringify(document), {}, {});
      yield document;
    }
  }
  const result = await client.helpers.bulk({
    datasource: documents(),
    onDocument: () => ({ create: { _index: "shop-orders" } }),
    flushBytes: 4_000,
    retries: 20,
    wait: 100,
  });
  if (result.failed) throw new Error(`${result.failed} of ${result.total} failed`);
});
