// The code of the README, as it is written there.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Node, PACKAGE, runScript, Stub } from "./support.js";

/** The blocks of JavaScript below a heading. */
function blocks(heading: string): string[] {
  const text = readFileSync(join(PACKAGE, "README.md"), "utf8");
  const section = text.split(/^## /m).find((part) => part.startsWith(`${heading}\n`)) ?? "";
  return [...section.matchAll(/^```js\n(.*?)^```$/gms)].map((match) => match[1] ?? "");
}

test("the sample has at most 25 lines and does what it says", async (context) => {
  const node = await Node.start();
  context.after(() => node.stop());
  const [sample = "", ...others] = blocks("Sample");
  assert.equal(others.length, 0);
  assert.ok(sample.split("\n").length <= 26);
  const { status, stdout, stderr } = await runScript(sample, { BUCKSAW_ADDR: node.endpoint });
  assert.deepEqual([status, stderr], [0, ""]);
  const lines = stdout.trim().split("\n");
  assert.equal(lines.length, 3);
  assert.match(lines[0] ?? "", /^\d{4}-\d\d-\d\dT[\d:.]+Z info order paid$/);
  assert.match(lines[1] ?? "", /^\d{4}-\d\d-\d\dT[\d:.]+Z error payment failed$/);
  assert.equal(lines[2], "1 error");
});

test("the samples of pino and winston send a record", async (context) => {
  const [worker = "", own = ""] = blocks("pino");
  const [winston = ""] = blocks("winston");
  for (const [script, message] of [
    [worker, "payment failed"],
    [`import pino from "pino";\n${own.replace("stream.end", 'logger.info("own thread"); stream.end')}`, "own thread"],
    [winston, "payment failed declined"],
  ] as const) {
    const stub = await Stub.start();
    context.after(() => stub.close());
    const { status, stderr } = await runScript(script, { BUCKSAW_ADDR: stub.endpoint });
    assert.deepEqual([status, stderr], [0, ""]);
    const records = stub.requests.flatMap((request) => request.records);
    assert.deepEqual(
      records.map((record) => record.message),
      [message],
    );
    assert.match(stub.requests[0]?.url ?? "", /label=service.name%3Dshop$/);
  }
});

test("the sample of signals closes the client", async (context) => {
  const stub = await Stub.start();
  context.after(() => stub.close());
  const [sample = ""] = blocks("The end of the process");
  const script = `
    import { Client } from "bucksaw";
    const client = new Client({ batchAgeMs: 3600000 });
    ${sample}
    client.log({ message: "last" });
    setInterval(() => {}, 1000);
    console.log("ready");
  `;
  const { status } = await runScript(script, { BUCKSAW_ADDR: stub.endpoint }, { signal: "SIGTERM" });
  assert.equal(status, 0);
  assert.equal(stub.requests[0]?.records[0]?.message, "last");
});
