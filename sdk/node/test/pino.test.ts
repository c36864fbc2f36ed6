// The transport of pino, in its worker thread and as a stream.

import assert from "node:assert/strict";
import { once } from "node:events";
import { type TestContext, test } from "node:test";
import { type Logger, pino, stdTimeFunctions } from "pino";
import { Client } from "../dist/esm/index.js";
import transport, { levelOf, type PinoOptions, type PinoStream, recordOf } from "../dist/esm/pino.js";
import { type Level, levelVectors, Node, type Reply, runScript, Stub, until } from "./support.js";

async function stubbed(context: TestContext, options: PinoOptions = {}, ...script: Reply[]) {
  const stub = await Stub.start(...script);
  const stream = transport({ endpoints: stub.endpoint, batchAgeMs: 5, onError: () => {}, ...options });
  context.after(async () => {
    stream.destroy();
    await stub.close();
  });
  return { stub, stream };
}

async function end(stream: PinoStream): Promise<void> {
  stream.end();
  await once(stream, "finish");
  assert.equal(stream.stats().bufferedRecords, 0);
}

test("vectors of levels", () => {
  const levels = levelVectors("pino");
  const bounds = [...levels].map(([number, level]): [number, Level | null] => [Number(number), level]);
  bounds.sort(([a], [b]) => a - b);
  for (const [index, [bound, level]] of bounds.entries()) {
    const next = bounds[index + 1]?.[0] ?? bound + 10;
    for (let number = bound; number < next; number += 1) assert.equal(levelOf(number), level);
  }
});

test("a stream of pino sends messages, levels, times, names, errors and attributes", async (context) => {
  const { stub, stream } = await stubbed(context);
  const logger = pino({ name: "shop", base: { pid: 7 } }, stream);
  const before = Date.now();
  logger.child({ request: { id: "r1" } }).warn({ order: 4711, time_: 1 }, "paid %s", "late");
  logger.error(Object.assign(new TypeError("declined", { cause: new Error("no card") }), { code: "E42" }), "failed");
  logger.fatal(new RangeError("alone"));
  await end(stream);

  const [first, second, third] = stub.requests.flatMap((request) => request.records);
  assert.ok(Date.parse(String(first?.time)) >= before && Date.parse(String(first?.time)) <= Date.now());
  assert.deepEqual(
    { ...first, time: "" },
    {
      time: "",
      message: "paid late",
      level: "warn",
      "logger.name": "shop",
      pid: 7,
      request: { id: "r1" },
      order: 4711,
      time_: 1,
    },
  );
  assert.equal(second?.message, "failed");
  assert.equal(second?.level, "error");
  assert.equal(second?.["exception.type"], "TypeError");
  assert.match(String(second?.["exception.message"]), /^declined/);
  assert.match(String(second?.["exception.stacktrace"]), /TypeError: declined\n[\s\S]*no card/);
  assert.deepEqual(second?.err, { code: "E42" });
  assert.deepEqual([third?.message, third?.level, third?.["exception.type"]], ["alone", "fatal", "RangeError"]);
});

test("a stream of pino.multistream", async (context) => {
  const { stub, stream } = await stubbed(context);
  const logger = pino({ level: "debug" }, pino.multistream([{ level: "warn", stream }]));
  logger.debug("too low");
  logger.warn("high enough");
  await new Promise((done) => stream.flush(done));
  assert.deepEqual(
    stub.requests.flatMap((request) => request.records).map((record) => record.message),
    ["high enough"],
  );
  assert.equal(stream.stats().acknowledged, 1);
});

test("names and times that pino's own options change", () => {
  const line = (logger: (stream: { write(line: string): void }) => Logger): string => {
    let written = "";
    logger({ write: (text) => (written = text) }).info("m");
    return written;
  };
  const iso = recordOf(line((stream) => pino({ timestamp: stdTimeFunctions.isoTime }, stream)));
  assert.match(String(iso.time), /^\d{4}-.*Z$/);
  const seconds = recordOf(line((stream) => pino({ timestamp: stdTimeFunctions.unixTime }, stream)));
  assert.ok(Math.abs(Number(seconds.time) - Date.now()) < 60_000);
  const none = recordOf(line((stream) => pino({ timestamp: false }, stream)));
  assert.equal(none.time, undefined);
  const label = recordOf(line((stream) => pino({ formatters: { level: (level) => ({ level }) } }, stream)));
  assert.equal(label.level, "info");

  const mapping = {
    messageKey: "text",
    errorKey: "error",
    timestampKey: "at",
    levelKey: "sev",
    levels: { loud: "error" },
  } as const;
  const record = recordOf(
    '{"sev":"loud","at":1000,"text":"m","error":{"type":"E","message":"e","stack":"s"}}',
    mapping,
  );
  assert.deepEqual([record.level, record.time, record.message], ["error", 1_000_000, "m"]);
  assert.equal(record.attributes?.["exception.stacktrace"], "s");
});

test("lines that are not those of pino are kept", () => {
  assert.deepEqual(recordOf("plain text"), { message: "plain text" });
  assert.deepEqual(recordOf("[1]"), { message: "[1]" });
  assert.deepEqual(recordOf("null"), { message: "null" });
  const odd = recordOf('{"level":true,"time":"soon","msg":{"a":1},"name":5,"err":"text","__proto__":1}');
  assert.deepEqual(
    { ...odd.attributes, level: odd.level },
    { time: "soon", name: 5, err: "text", message: { a: 1 }, level: undefined, ["__proto__"]: 1 },
  );
});

test("chunks may divide lines anywhere", async (context) => {
  const { stub, stream } = await stubbed(context);
  for (const character of '{"msg":"a"}\n\n{"msg":"é😀"}\n{"msg":"last"}') stream.write(character);
  for (const byte of Buffer.from('\n{"msg":"bytes é😀"}\n')) stream.write(Buffer.from([byte]));
  await end(stream);
  const messages = stub.requests.flatMap((request) => request.records).map((record) => record.message);
  assert.deepEqual(messages, ["a", "é😀", "last", "bytes é😀"]);
});

test("with block, the stream waits for room and keeps the order", async (context) => {
  const { stub, stream } = await stubbed(context, { whenFull: "block", blockTimeMs: 60_000, bufferBytes: 2000 });
  const logger = pino(stream);
  const wanted: string[] = [];
  for (let index = 0; index < 20; index += 1) {
    logger.info(String(index));
    wanted.push(String(index));
  }
  await end(stream);
  const messages = stub.requests.flatMap((request) => request.records).map((record) => record.message);
  assert.deepEqual(messages, wanted);
});

test("with block, what waits in the stream is bounded", async (context) => {
  const options: PinoOptions = { whenFull: "block", blockTimeMs: 60_000, bufferBytes: 2000, closeTimeMs: 10 };
  const { stream } = await stubbed(context, options, () => {});
  const logger = pino(stream);
  for (let index = 0; index < 1000; index += 1) logger.info("x".repeat(100));
  await until("lines are dropped", () => stream.stats().dropped.full > 0 && stream.writableLength <= 2000 + 300);
});

test("unknown options are refused", () => {
  assert.throws(() => transport({ endpoint: "http://a" } as PinoOptions), /^TypeError: endpoint: no such setting/);
});

test("pino.transport sends from its worker thread, and the records can be read", async (context) => {
  const node = await Node.start();
  context.after(() => node.stop());
  const script = (finish: string) => `
    import pino from "pino";
    const transport = pino.transport({
      target: "bucksaw/pino",
      options: { labels: { "service.name": "worker" }, durability: "fast" },
    });
    const logger = pino({ level: "trace" }, transport);
    for (let index = 0; index < 1000; index += 1) logger.info({ index }, "from the worker");
    logger.error(new Error("of the main thread"), "failed");
    ${finish}
  `;
  // The worker sends the rest when the program ends, even by process.exit.
  for (const finish of ["", "process.exit(0);"]) {
    const { status, stderr } = await runScript(script(finish), { BUCKSAW_ADDR: node.endpoint });
    assert.deepEqual([status, stderr], [0, ""]);
  }
  const client = new Client({ endpoints: node.endpoint });
  context.after(() => client.close());
  assert.equal(await client.count('service.name=worker "from the worker"'), 2000);
  const failed = await client.query("service.name=worker level=error").toArray();
  assert.deepEqual(
    failed.map((record) => record.line),
    ["failed", "failed"],
  );
  assert.equal(failed[0]?.attributes["exception.message"], "of the main thread");
  assert.match(failed[0]?.attributes["exception.stacktrace"] ?? "", /^Error: of the main thread\n/);
});
