// Records are stored exactly once although their node is killed.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Client } from "../dist/esm/index.js";
import { isConsistent, Node, until } from "./support.js";

const RECORDS = 100_000;

test("100,000 records are stored once each, while the node is killed twice", { timeout: 120_000 }, async (context) => {
  const node = await Node.start();
  context.after(() => node.stop());
  let retriesReported = 0;
  const client = new Client({
    endpoints: node.endpoint,
    labels: { "service.name": "restart" },
    batchRecords: 2_000,
    requestTimeMs: 5_000,
    onError: ({ kind }) => {
      if (kind === "retry") retriesReported += 1;
    },
  });
  context.after(() => client.close());

  const started = Date.now();
  let logged = 0;
  const log = (count: number) => {
    for (let index = 0; index < count; index += 1) {
      assert.ok(client.log({ message: `record ${logged}`, level: "info", attributes: { index: logged } }));
      logged += 1;
    }
  };
  for (const share of [0.2, 0.6]) {
    while (logged < RECORDS * share) {
      log(500);
      await new Promise((done) => setImmediate(done));
    }
    await until("some records are acknowledged", () => client.stats().acknowledged > RECORDS * (share - 0.2));
    // More records than fit into a batch are on their way when the node ends.
    log(5_000);
    await new Promise((done) => setImmediate(done));
    assert.ok(client.stats().bufferedRecords > 0);
    await node.kill();
    const retries = client.stats().retries;
    await until("a batch is sent again", () => client.stats().retries > retries);
    log(5_000);
    await node.restart();
  }
  log(RECORDS - logged);
  assert.equal(await client.flush(60_000), true);

  const stats = client.stats();
  assert.ok(isConsistent(stats));
  assert.deepEqual([stats.logged, stats.acknowledged, stats.bufferedBytes], [RECORDS, RECORDS, 0]);
  assert.ok(stats.retries >= 2 && retriesReported >= 1);

  const range = { from: new Date(started - 60_000), to: new Date(Date.now() + 60_000) };
  assert.equal(await client.count("service.name=restart", range), RECORDS);
  const messages = new Set<string>();
  let read = 0;
  for await (const record of client.query("service.name=restart", range)) {
    messages.add(record.line);
    assert.equal(record.line, `record ${record.attributes.index}`);
    read += 1;
  }
  assert.equal(read, RECORDS);
  assert.equal(messages.size, RECORDS);
});
