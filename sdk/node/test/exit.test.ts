// The end of a process with a client, in processes of their own.

import assert from "node:assert/strict";
import { test } from "node:test";
import { accept, runScript, Stub } from "./support.js";

const START = `
  import { Client } from "bucksaw";
  const client = new Client({ closeTimeMs: Number(process.env.CLOSE_TIME_MS ?? 20000), batchAgeMs: 3600000 });
  const log = (message) => {
    client.log({ message });
    // After the listener of the package, which the first record adds.
    if (client.stats().logged === 1) process.on("exit", () => console.log(JSON.stringify(client.stats())));
  };
`;

async function run(context: { after(done: () => Promise<void>): void }, script: string) {
  const stub = await Stub.start();
  context.after(() => stub.close());
  return { stub, ...(await runScript(START + script, { BUCKSAW_ADDR: stub.endpoint })) };
}

test("the end of a program sends what is buffered", async (context) => {
  const { stub, status, stdout, stderr } = await run(context, `log("last");`);
  assert.deepEqual([status, stderr], [0, ""]);
  assert.equal(stub.requests[0]?.records[0]?.message, "last");
  assert.equal(JSON.parse(stdout).acknowledged, 1);
});

test("an idle client does not keep the process alive, also after it has sent", async (context) => {
  const { status, stdout } = await run(context, `log("a"); await client.flush(); console.log("end");`);
  assert.equal(status, 0);
  assert.match(stdout, /^end\n/);
});

test("flush and close keep the process alive until they are done", async (context) => {
  const { stub, stdout } = await run(
    context,
    `log("a"); console.log(await client.flush());
     log("b"); console.log(await client.close());`,
  );
  assert.match(stdout, /^true\ntrue\n/);
  assert.equal(stub.requests.length, 2);
});

test("records logged by another handler of beforeExit are sent too", async (context) => {
  const { stub, status } = await run(
    context,
    `log("a");
     process.once("beforeExit", () => setTimeout(() => log("b"), 50));`,
  );
  assert.equal(status, 0);
  assert.deepEqual(
    stub.requests.flatMap((request) => request.records.map((record) => record.message)),
    ["a", "b"],
  );
});

test("without a node the process ends at the close time, and says what was dropped", async () => {
  const { status, stdout, stderr } = await runScript(`${START} log("a");`, {
    BUCKSAW_ADDR: "127.0.0.1:1",
    CLOSE_TIME_MS: "300",
  });
  assert.equal(status, 0);
  assert.equal(JSON.parse(stdout).dropped.closed, 1);
  assert.match(
    stderr,
    /^bucksaw: .*ECONNREFUSED.* \(retry, records: 1\)\n[\s\S]*not acknowledged within 300 ms \(closed, records: 1\)\n$/,
  );
});

test("a node that does not answer delays the end by the close time, not by the request time", async (context) => {
  const stub = await Stub.start(() => {});
  context.after(() => stub.close());
  const { status, stdout } = await runScript(`${START} log("a");`, {
    CLOSE_TIME_MS: "300",
    BUCKSAW_ADDR: stub.endpoint,
  });
  assert.equal(status, 0);
  assert.equal(JSON.parse(stdout).dropped.closed, 1);
});

test("a request that runs when the program has ended delays the end by the close time only", async (context) => {
  const stub = await Stub.start(() => {});
  context.after(() => stub.close());
  const script = `
    import { Client } from "bucksaw";
    const client = new Client({ closeTimeMs: 300, batchAgeMs: 1 });
    client.log({ message: "a" });
    setTimeout(() => console.log("end"), 200);
  `;
  const { status, stdout } = await runScript(script, { BUCKSAW_ADDR: stub.endpoint });
  assert.deepEqual([status, stdout, stub.requests.length], [0, "end\n", 1]);
});

test("an idle client is collected, although it was not closed", async (context) => {
  const script = `
    import { Client } from "bucksaw";
    import { setFlagsFromString } from "node:v8";
    import { runInNewContext } from "node:vm";
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc");
    const make = async () => {
      // The client's parts hold it too.
      const onError = () => {};
      const client = new Client({ onError });
      client.log({ message: "a" });
      await client.flush();
      return new WeakRef(onError);
    };
    const made = [];
    for (let index = 0; index < 20; index += 1) made.push(await make());
    const alive = () => made.filter((handler) => handler.deref() !== undefined).length;
    for (let round = 0; round < 100 && alive() > 2; round += 1) {
      await new Promise((done) => setTimeout(done, 10));
      collect();
    }
    console.log(alive() <= 2);
  `;
  const stub = await Stub.start();
  context.after(() => stub.close());
  const { stdout } = await runScript(script, { BUCKSAW_ADDR: stub.endpoint });
  assert.equal(stdout, "true\n");
});

test("a program that logs what was dropped ends all the same", async () => {
  const script = `
    import { Client } from "bucksaw";
    const onError = (failure) => client.log({ message: failure.message });
    const client = new Client({ closeTimeMs: 100, onError });
    client.log({ message: "a" });
    process.on("exit", () => client.log({ message: "last" }));
    process.on("exit", () => console.log(JSON.stringify(client.stats())));
  `;
  const { status, stdout } = await runScript(script, { BUCKSAW_ADDR: "127.0.0.1:1" });
  const stats = JSON.parse(stdout);
  assert.deepEqual([status, stats.bufferedRecords], [0, 0]);
  assert.equal(stats.dropped.closed, stats.logged);
});

for (const [name, end] of [
  ["process.exit", "process.exit(3);"],
  ["an uncaught error", 'throw new Error("uncaught");'],
] as const) {
  test(`${name} drops what is buffered, counts it and says so`, async (context) => {
    const { stub, status, stdout, stderr } = await run(context, `log("a"); ${end}`);
    assert.notEqual(status, 0);
    assert.equal(stub.requests.length, 0);
    assert.equal(JSON.parse(stdout).dropped.closed, 1);
    assert.match(stderr, /bucksaw: the process ended before the records were acknowledged \(closed, records: 1\)/);
  });
}

test("a worker thread that ends sends what is buffered", async (context) => {
  const { stub, status } = await run(
    context,
    `import { Worker } from "node:worker_threads";
     new Worker(\`
       import { Client } from "bucksaw";
       new Client({ batchAgeMs: 3600000 }).log({ message: "of a thread" });
     \`, { eval: true });`,
  );
  assert.equal(status, 0);
  assert.equal(stub.requests[0]?.records[0]?.message, "of a thread");
});

test("the package is used by require as by import", async (context) => {
  const stub = await Stub.start(accept);
  context.after(() => stub.close());
  const script = `
    const { Client } = require("bucksaw");
    const client = new Client({ labels: { "service.name": "cjs" } });
    client.log({ message: "required" });
    client.close().then((sufficed) => console.log(sufficed, typeof require("bucksaw/pino").default));
    console.log(typeof require("bucksaw/winston").default);
  `;
  const { status, stdout, stderr } = await runScript(script, { BUCKSAW_ADDR: stub.endpoint }, { extension: "cjs" });
  assert.deepEqual([status, stderr, stdout], [0, "", "function\ntrue function\n"]);
  assert.equal(stub.requests[0]?.records[0]?.message, "required");
});
