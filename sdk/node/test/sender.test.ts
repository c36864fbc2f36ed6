// Batches, retries, the full buffer, flushing and closing, against a stub of a node over real HTTP.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Credentials } from "../dist/esm/credentials.js";
import { Failures } from "../dist/esm/failures.js";
import { Connections } from "../dist/esm/http.js";
import { Client, type ClientSettings, type Failure } from "../dist/esm/index.js";
import { encodeRecord } from "../dist/esm/record.js";
import { Sender } from "../dist/esm/sender.js";
import { resolveSettings } from "../dist/esm/settings.js";
import { Certificates } from "../dist/esm/tls.js";
import { accept, answer, endless, hang, isConsistent, type Reply, reset, Stub, truncate, until } from "./support.js";

async function setUp(context: TestContext, script: Reply[] = [], settings: ClientSettings = {}) {
  const stub = await Stub.start(...script);
  const failures: Failure[] = [];
  const onError = (failure: Failure) => failures.push(failure);
  const client = new Client({ endpoints: stub.endpoint, batchAgeMs: 5, onError, ...settings });
  context.after(async () => {
    await client.close();
    await stub.close();
    assert.ok(isConsistent(client.stats()), JSON.stringify(client.stats()));
  });
  return { stub, client, failures };
}

function messages(stub: Stub): unknown[] {
  return stub.requests.flatMap((request) => request.records.map((record) => record.message));
}

/** A reply that the test gives when it is ready. */
function gate(): { reply: Reply; open: () => void } {
  let open = () => {};
  const opened = new Promise<void>((done) => {
    open = done;
  });
  return { reply: (request, response) => void opened.then(() => accept(request, response)), open };
}

test("a batch has the address, headers and lines of the contract", async (context) => {
  const { stub, client } = await setUp(context, [], { labels: { "service.name": "shop" } });
  assert.equal(client.log({ message: "a\nb", level: "info", time: 0, attributes: { order: 4711 } }), true);
  assert.equal(await client.flush(), true);
  const [request] = stub.requests;
  assert.equal(request?.method, "POST");
  const parameters = "durability=durable&time_field=time&message_field=message&label=service.name%3Dshop";
  assert.equal(request?.url, `/api/v1/ingest?${parameters}`);
  assert.equal(request?.headers["content-type"], "application/x-ndjson");
  assert.equal(request?.headers["content-encoding"], undefined);
  assert.match(request?.key ?? "", /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  const line = '{"time":"1970-01-01T00:00:00.000000000Z","message":"a\\nb","level":"info","order":4711}\n';
  assert.equal(request?.body, line);
  const stats = client.stats();
  assert.deepEqual([stats.logged, stats.acknowledged, stats.bufferedRecords, stats.bufferedBytes], [1, 1, 0, 0]);
});

test("bodies of 1 KiB are compressed", async (context) => {
  const { stub, client } = await setUp(context);
  client.log({ message: "x".repeat(1024) });
  await client.flush();
  assert.equal(stub.requests[0]?.headers["content-encoding"], "gzip");
  assert.equal(stub.requests[0]?.records[0]?.message, "x".repeat(1024));
});

test("a batch is sent when it is old, without a flush", async (context) => {
  const { stub, client } = await setUp(context);
  client.log({ message: "a" });
  await until("the record is acknowledged", () => client.stats().acknowledged === 1);
  client.log({ message: "b" });
  await until("the second record is acknowledged", () => client.stats().acknowledged === 2);
  assert.deepEqual(messages(stub), ["a", "b"]);
});

test("a batch is sent when it has enough records or bytes, in order", async (context) => {
  const hour = { batchAgeMs: 3_600_000 };
  const byRecords = await setUp(context, [], { ...hour, batchRecords: 10 });
  for (let index = 0; index < 30; index += 1) byRecords.client.log({ message: String(index) });
  await until("three batches are acknowledged", () => byRecords.client.stats().acknowledged === 30);
  assert.deepEqual(
    byRecords.stub.requests.map((request) => request.records.length),
    [10, 10, 10],
  );
  assert.deepEqual(
    messages(byRecords.stub),
    Array.from({ length: 30 }, (_, index) => String(index)),
  );

  const byBytes = await setUp(context, [], { ...hour, batchBytes: 1000 });
  for (let index = 0; index < 30; index += 1) byBytes.client.log({ message: "x".repeat(300) });
  byBytes.client.log({ message: "y".repeat(2000) });
  await until("the batches are acknowledged", () => byBytes.client.stats().acknowledged === 31);
  for (const { body, records } of byBytes.stub.requests)
    assert.ok(Buffer.byteLength(body) <= 1000 || records.length === 1);
  assert.equal(new Set(byBytes.stub.requests.map((request) => request.key)).size, byBytes.stub.requests.length);
});

test("one batch at a time, and the next one grows meanwhile", async (context) => {
  const { reply, open } = gate();
  const { stub, client } = await setUp(context, [reply], { batchAgeMs: 0 });
  client.log({ message: "first" });
  await until("the first batch has arrived", () => stub.requests.length === 1);
  for (let index = 0; index < 100; index += 1) {
    client.log({ message: String(index) });
    await new Promise((done) => setImmediate(done));
  }
  assert.equal(stub.requests.length, 1);
  open();
  assert.equal(await client.flush(), true);
  assert.deepEqual(
    stub.requests.map((request) => request.records.length),
    [1, 100],
  );
});

for (const [name, reply] of Object.entries<Reply>({
  "status 503": answer(503, '{"error":"overloaded"}'),
  "status 500 without a body": answer(500, ""),
  "status 408": answer(408, ""),
  "a closed connection": reset,
  "a truncated answer": truncate,
  "an endless answer": endless,
  "an answer that is not JSON": answer(200, "<html>"),
  "an answer of another type": answer(200, '{"accepted":"all","rejected":null}'),
  "status 101": answer(101, "", { connection: "upgrade", upgrade: "x" }),
})) {
  test(`after ${name} the same body is sent again with the same key`, async (context) => {
    const { stub, client, failures } = await setUp(context, [reply, reply]);
    client.log({ message: "a".repeat(2000) });
    assert.equal(await client.flush(), true);
    assert.equal(stub.requests.length, 3);
    assert.equal(new Set(stub.requests.map((request) => request.key)).size, 1);
    assert.equal(new Set(stub.requests.map((request) => request.body)).size, 1);
    assert.equal(client.stats().retries, 2);
    assert.equal(client.stats().acknowledged, 1);
    assert.equal(failures[0]?.kind, "retry");
    assert.equal(failures[0]?.records, 1);
  });
}

test("a node that never answers costs the request time, and the batch is sent again", async (context) => {
  const { stub, client, failures } = await setUp(context, [hang], { requestTimeMs: 500 });
  client.log({ message: "a" });
  assert.equal(await client.flush(), true);
  assert.equal(stub.requests.length, 2);
  assert.equal(stub.requests[0]?.key, stub.requests[1]?.key);
  assert.match(failures[0]?.message ?? "", /no complete answer within 500 ms/);
});

test("an answer that trickles costs no more than the request time", async (context) => {
  const trickle: Reply = (_, response) => {
    const timer = setInterval(() => response.write(" "), 10);
    response.on("close", () => clearInterval(timer));
  };
  const { stub, client } = await setUp(context, [trickle], { requestTimeMs: 500 });
  client.log({ message: "a" });
  assert.equal(await client.flush(), true);
  assert.equal(stub.requests.length, 2);
});

test("endpoints take turns after failures, and the one that works is kept", async (context) => {
  const bad = await Stub.start(answer(503, ""), answer(503, ""));
  context.after(() => bad.close());
  const { stub, client } = await setUp(context);
  const rotating = new Client({ endpoints: [bad.endpoint, "127.0.0.1:1", stub.endpoint], onError: () => {} });
  context.after(() => rotating.close());
  rotating.log({ message: "a" });
  assert.equal(await rotating.flush(), true);
  assert.deepEqual([bad.requests.length, stub.requests.length, rotating.stats().retries], [1, 1, 2]);
  assert.equal(bad.requests[0]?.key, stub.requests[0]?.key);
  rotating.log({ message: "b" });
  assert.equal(await rotating.flush(), true);
  assert.deepEqual([bad.requests.length, stub.requests.length], [1, 2]);
  assert.equal(client.stats().logged, 0);
});

test("other statuses drop the batch, and the next one is sent", async (context) => {
  const { stub, client, failures } = await setUp(context, [answer(400, '{"error":"label: \\u001b[31m bad"}')]);
  client.log({ message: "a" });
  assert.equal(await client.flush(), true);
  client.log({ message: "b" });
  assert.equal(await client.flush(), true);
  assert.equal(client.stats().dropped.refused, 1);
  assert.equal(client.stats().acknowledged, 1);
  assert.equal(client.stats().retries, 0);
  assert.equal(failures[0]?.kind, "refused");
  assert.equal(failures[0]?.message, `${stub.endpoint}: label:  [31m bad`);
});

test("redirects are not followed", async (context) => {
  const target = await Stub.start();
  context.after(() => target.close());
  const { client } = await setUp(context, [answer(307, "", { location: `${target.endpoint}/api/v1/ingest` })]);
  client.log({ message: "a" });
  await client.flush();
  assert.equal(target.requests.length, 0);
  assert.equal(client.stats().dropped.refused, 1);
});

test("rejected records are counted and reported, and never more than there are", async (context) => {
  const { client, failures } = await setUp(context, [
    answer(200, '{"accepted":1,"rejected":1,"errors":[{"line":2,"error":"more than 256 attributes"}]}'),
    answer(200, '{"accepted":0,"rejected":1000}'),
  ]);
  client.log({ message: "a" });
  client.log({ message: "b" });
  await client.flush();
  assert.deepEqual([client.stats().acknowledged, client.stats().rejected], [1, 1]);
  assert.match(failures[0]?.message ?? "", /more than 256 attributes/);
  client.log({ message: "c" });
  await client.flush();
  assert.deepEqual([client.stats().acknowledged, client.stats().rejected], [1, 2]);
});

test("closing ends the pauses that a node asks for", async (context) => {
  const busy = answer(503, "", { "retry-after": "60" });
  const { stub, client } = await setUp(context, [busy, busy, busy], { closeTimeMs: 30_000 });
  client.log({ message: "a" });
  assert.equal(await client.flush(300), false);
  assert.equal(stub.requests.length, 1);
  assert.equal(await client.close(), true);
  assert.deepEqual([stub.requests.length, client.stats().acknowledged], [4, 1]);
});

test("closing sends at once, instead of at the end of a pause", async (context) => {
  const { stub, client, failures } = await setUp(context, [answer(503, "")]);
  const connections = new Connections(new Credentials({}), new Certificates({}));
  context.after(() => connections.close());
  // A pause of days.
  const environment = { now: Date.now, random: () => 1e7 };
  const reports = new Failures((failure) => failures.push(failure));
  const sender = new Sender(resolveSettings({ endpoints: stub.endpoint }), connections, reports, environment);
  sender.offer(encodeRecord({ message: "a" }));
  void sender.flush(0);
  await until("the pause has begun", () => failures.length === 1);
  assert.equal(await sender.close(), true);
  assert.equal(sender.stats().acknowledged, 1);
  assert.equal(client.stats().logged, 0);
});

test("a batch is dropped when its key is six days old", async (context) => {
  const { stub } = await setUp(context, [answer(503, "")]);
  const settings = resolveSettings({ endpoints: stub.endpoint });
  const failures: Failure[] = [];
  const connections = new Connections(new Credentials({}), new Certificates({}));
  context.after(() => connections.close());
  let now = Date.now();
  const environment = {
    now: () => now,
    random: () => {
      // The time of a pause, in which six days pass.
      now += 6 * 24 * 60 * 60 * 1000;
      return 0;
    },
  };
  const sender = new Sender(settings, connections, new Failures((failure) => failures.push(failure)), environment);
  sender.offer(encodeRecord({ message: "old" }));
  assert.equal(await sender.flush(10_000), true);
  assert.equal(stub.requests.length, 1);
  assert.deepEqual([sender.stats().dropped.tooOld, sender.stats().retries], [1, 0]);
  assert.equal(failures.at(-1)?.kind, "too_old");
});

test("a record that does not fit is dropped and counted, and the caller goes on", async (context) => {
  const { reply, open } = gate();
  const { stub, client, failures } = await setUp(context, [reply], { bufferBytes: 1000 });
  let buffered = 0;
  for (let index = 0; index < 100; index += 1) buffered += client.log({ message: "x".repeat(50) }) ? 1 : 0;
  const stats = client.stats();
  assert.ok(buffered > 0 && buffered < 100);
  assert.equal(stats.dropped.full, 100 - buffered);
  assert.ok(stats.bufferedBytes <= 1000);
  assert.ok(isConsistent(stats));
  // A full buffer is sent at once, whatever the age of its batch.
  await until("the batch has arrived", () => stub.requests.length === 1);
  open();
  assert.equal(await client.flush(), true);
  assert.equal(client.log({ message: "again" }), true);
  assert.deepEqual(
    failures.map((failure) => failure.kind),
    ["full"],
  );
  await client.close();
  assert.equal(
    failures.reduce((sum, failure) => sum + failure.records, 0),
    100 - buffered,
  );
});

test("with block, logAsync waits for room, and log does not", async (context) => {
  const { reply, open } = gate();
  const { stub, client } = await setUp(context, [reply], { bufferBytes: 500, whenFull: "block", blockTimeMs: 60_000 });
  while (client.log({ message: "x".repeat(50) }));
  // There is room for the second one, but it waits for its turn.
  const wanted = [`first ${"x".repeat(50)}`, "second", "third"];
  const waiting = wanted.map((message) => client.logAsync({ message }));
  assert.ok(isConsistent(client.stats()));
  await until("the batch has arrived", () => stub.requests.length === 1);
  open();
  assert.deepEqual(await Promise.all(waiting), [true, true, true]);
  assert.equal(await client.flush(), true);
  assert.deepEqual(messages(stub).slice(-3), wanted);
  assert.equal(client.stats().dropped.full, 1);
});

test("with block, a record is dropped after the block time", async (context) => {
  const { reply, open } = gate();
  const { client } = await setUp(context, [reply], { bufferBytes: 500, whenFull: "block", blockTimeMs: 20 });
  while (client.log({ message: "x".repeat(50) }));
  assert.equal(await client.logAsync({ message: "x".repeat(50) }), false);
  assert.equal(client.stats().dropped.full, 2);
  assert.equal(await client.logAsync({ message: "x".repeat(1000) }), false);
  open();
});

test("with block, records that wait are bounded and are sent when the client is closed", async (context) => {
  const { reply, open } = gate();
  const { stub, client } = await setUp(context, [reply], { bufferBytes: 500, whenFull: "block", blockTimeMs: 60_000 });
  const results = Array.from({ length: 100 }, () => client.logAsync({ message: "x".repeat(50) }));
  await until("the batch has arrived", () => stub.requests.length === 1);
  const closed = client.close();
  open();
  assert.equal(await closed, true);
  const buffered = (await Promise.all(results)).filter(Boolean).length;
  assert.equal(messages(stub).length, buffered);
  assert.equal(client.stats().acknowledged, buffered);
  assert.equal(client.stats().dropped.full, 100 - buffered);
});

test("flush says that the time did not suffice, and the records are still sent", async (context) => {
  const { reply, open } = gate();
  const { client } = await setUp(context, [reply]);
  client.log({ message: "a" });
  assert.equal(await client.flush(20), false);
  assert.equal(await client.flush(0), false);
  assert.equal(await client.flush(Number.NaN), false);
  open();
  assert.equal(await client.flush(Number.POSITIVE_INFINITY), true);
  assert.equal(await client.flush(0), true);
});

test("flush waits only for records that were logged before it", async (context) => {
  const { reply, open } = gate();
  const { client } = await setUp(context, [accept, reply]);
  client.log({ message: "before" });
  const flushed = client.flush();
  client.log({ message: "after" });
  assert.equal(await flushed, true);
  open();
});

test("closing sends the rest, then drops and counts what is logged", async (context) => {
  const { stub, client, failures } = await setUp(context, [], { batchAgeMs: 3_600_000 });
  client.log({ message: "a" });
  const [first, second] = await Promise.all([client.close(), client.close()]);
  assert.deepEqual([first, second], [true, true]);
  assert.deepEqual(messages(stub), ["a"]);
  assert.equal(client.log({ message: "late" }), false);
  assert.equal(await client.logAsync({ message: "late" }), false);
  assert.equal(client.stats().dropped.closed, 2);
  await until("the failure is reported", () => failures.some((failure) => failure.kind === "closed"));
  await until("no connection is left", () => stub.sockets.size === 0);
});

test("closing ends at the close time, and drops and counts the rest", async (context) => {
  const { stub, client, failures } = await setUp(context, [hang], { closeTimeMs: 50, batchRecords: 1 });
  for (let index = 0; index < 5; index += 1) client.log({ message: String(index) });
  const flushed = client.flush();
  assert.equal(await client.close(), false);
  assert.equal(await flushed, true);
  assert.equal(client.stats().dropped.closed, 5);
  assert.equal(client.stats().bufferedBytes, 0);
  await until("no connection is left", () => stub.sockets.size === 0);
  assert.deepEqual(
    failures.map(({ kind, records }) => [kind, records]),
    [["closed", 5]],
  );
});

test("closing without a node ends at the close time", async (context) => {
  const { client } = await setUp(context, [], { endpoints: "127.0.0.1:1", closeTimeMs: 50 });
  client.log({ message: "a" });
  assert.equal(await client.close(), false);
});

test("a handler that throws, rejects or logs does no harm", async (context) => {
  const stub = await Stub.start(answer(400, ""), answer(400, ""), answer(400, ""));
  context.after(() => stub.close());
  let calls = 0;
  const client: Client = new Client({
    endpoints: stub.endpoint,
    bufferBytes: 100,
    onError: async () => {
      calls += 1;
      // Too long for the buffer, so it causes the next failure.
      client.log({ message: "x".repeat(200) });
      throw new Error("handler");
    },
  });
  client.log({ message: "a" });
  await client.flush();
  client.log({ message: "x".repeat(200) });
  await client.close();
  assert.ok(calls >= 2 && calls < 10, `${calls} calls`);
  assert.ok(isConsistent(client.stats()));
});

test("counters agree at any time, whatever nodes answer", async (context) => {
  const replies: Reply[] = [
    accept,
    answer(503, ""),
    answer(400, ""),
    reset,
    answer(200, '{"accepted":0,"rejected":2}'),
  ];
  const script = Array.from({ length: 60 }, (_, index) => replies[(index * 7) % replies.length] ?? accept);
  const { client } = await setUp(context, script, { batchRecords: 5, bufferBytes: 2000, closeTimeMs: 500 });
  for (let index = 0; index < 500; index += 1) {
    client.log({ message: "x".repeat(index % 60) });
    client.log({ message: "m", attributes: { large: index % 50 === 0 ? "x".repeat(1 << 20) : "" } });
    if (index % 10 === 0) await new Promise((done) => setImmediate(done));
    assert.ok(isConsistent(client.stats()), JSON.stringify(client.stats()));
  }
  await client.close();
  client.log({ message: "late" });
  const stats = client.stats();
  assert.ok(isConsistent(stats), JSON.stringify(stats));
  assert.deepEqual(
    [stats.logged, stats.bufferedRecords, stats.bufferedBytes, stats.dropped.tooLarge],
    [1001, 0, 0, 10],
  );
});

test("many batches use one connection", async (context) => {
  const { stub, client } = await setUp(context);
  let connections = 0;
  const seen = new Set();
  for (let index = 0; index < 20; index += 1) {
    client.log({ message: "a" });
    await client.flush();
    for (const socket of stub.sockets) {
      if (!seen.has(socket)) connections += 1;
      seen.add(socket);
    }
  }
  assert.equal(connections, 1);
});

test("settings are checked when the client is made", () => {
  const rows: [unknown, RegExp][] = [
    [{ endpoints: "ftp://h" }, /^TypeError: endpoints: expected http or https$/],
    [{ endpoints: "http://" }, /^TypeError: endpoints/],
    [{ endpoints: "http://u:%zz@h" }, /^TypeError: endpoints: expected URLs/],
    [{ endpoints: [] }, /^TypeError: endpoints: expected at least one$/],
    [{ endpoints: "http://h/?a" }, /^TypeError: endpoints: expected no query/],
    [{ labels: { "a b": "c" } }, /^TypeError: labels/],
    [{ labels: { "": "c" } }, /^TypeError: labels/],
    [{ durability: "safe" }, /^TypeError: durability: expected one of durable, fast, bulk$/],
    [{ whenFull: "wait" }, /^TypeError: whenFull/],
    [{ batchBytes: 0 }, /^RangeError: batchBytes/],
    [{ batchRecords: 1.5 }, /^RangeError: batchRecords/],
    [{ closeTimeMs: Number.POSITIVE_INFINITY }, /^RangeError: closeTimeMs/],
    [{ onError: "x" }, /^TypeError: onError/],
    [{ batchByte: 1 }, /^TypeError: batchByte: no such setting; there are endpoints, /],
  ];
  for (const [settings, message] of rows) {
    assert.throws(
      () => new Client(settings as ClientSettings),
      (error) => message.test(String(error)) || assert.fail(String(error)),
    );
  }
});

test("endpoints come from the settings, then from BUCKSAW_ADDR, then from the default", (context) => {
  const before = process.env.BUCKSAW_ADDR;
  context.after(() => {
    if (before === undefined) delete process.env.BUCKSAW_ADDR;
    else process.env.BUCKSAW_ADDR = before;
  });
  const bases = (settings?: ClientSettings) => resolveSettings(settings).endpoints.map((endpoint) => endpoint.base);
  delete process.env.BUCKSAW_ADDR;
  assert.deepEqual(bases(), ["http://127.0.0.1:7650"]);
  process.env.BUCKSAW_ADDR = " a:1, https://b/x/ ,";
  assert.deepEqual(bases(), ["http://a:1", "https://b/x"]);
  assert.deepEqual(bases({ endpoints: "c:2,d:3" }), ["http://c:2", "http://d:3"]);
  process.env.BUCKSAW_ADDR = "";
  assert.deepEqual(bases(), ["http://127.0.0.1:7650"]);
});

test("user and password of an endpoint are sent as a header", async (context) => {
  const stub = await Stub.start();
  context.after(() => stub.close());
  const client = new Client({ endpoints: stub.endpoint.replace("//", "//u:p%40@") });
  client.log({ message: "a" });
  await client.close();
  assert.equal(stub.requests[0]?.headers.authorization, `Basic ${Buffer.from("u:p@").toString("base64")}`);
});
