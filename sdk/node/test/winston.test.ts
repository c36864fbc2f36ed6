// The transport of winston.

import assert from "node:assert/strict";
import { once } from "node:events";
import { type TestContext, test } from "node:test";
import winston from "winston";
import { Client } from "../dist/esm/index.js";
import BucksawTransport, { recordOf, type WinstonOptions } from "../dist/esm/winston.js";
import { levelVectors, Node, type Received, type Reply, Stub } from "./support.js";

async function setUp(
  context: TestContext,
  options: WinstonOptions = {},
  logger: winston.LoggerOptions = {},
  ...script: Reply[]
) {
  const stub = await Stub.start(...script);
  const transport = new BucksawTransport({ endpoints: stub.endpoint, batchAgeMs: 5, onError: () => {}, ...options });
  const made = winston.createLogger({ level: "silly", transports: [transport], ...logger });
  context.after(async () => {
    made.close();
    await stub.close();
  });
  return { stub, transport, logger: made };
}

function records(stub: { requests: Received[] }): Record<string, unknown>[] {
  return stub.requests.flatMap((request) => request.records);
}

test("vectors of levels", () => {
  for (const [name, level] of levelVectors("winston")) {
    assert.equal(recordOf({ level: name, message: "m" }).level ?? null, level, name);
  }
});

test("messages, levels, times and attributes", async (context) => {
  const { stub, logger, transport } = await setUp(context, {}, { defaultMeta: { service: "shop" } });
  logger.warn("paid", { order: 4711, user: { id: "u7" } });
  logger.log("http", "GET /");
  logger.info({ message: "object", a: 1, time: "t" });
  assert.equal(await transport.flush(), true);
  const [first, second, third] = records(stub);
  assert.deepEqual(
    { ...first, time: "" },
    { time: "", message: "paid", level: "warn", order: 4711, service: "shop", user: { id: "u7" } },
  );
  assert.deepEqual([second?.message, second?.level], ["GET /", "info"]);
  assert.deepEqual([third?.message, third?.a, third?.time_], ["object", 1, "t"]);
  assert.equal(transport.stats().acknowledged, 3);
});

test("formats: colours, splat, timestamps", async (context) => {
  const { colorize, combine, splat, timestamp } = winston.format;
  const format = combine(colorize({ level: true }), splat(), timestamp());
  const { stub, logger, transport } = await setUp(context, {}, { format });
  logger.error("%d items of %s", 3, "shop", { a: 1 });
  await transport.flush();
  const [record] = records(stub);
  assert.deepEqual([record?.message, record?.level, record?.a], ["3 items of shop", "error", 1]);
  assert.equal(record?.timestamp, undefined);
  assert.equal(recordOf({ level: "info", message: "m", timestamp: "12 o'clock" }).attributes?.timestamp, "12 o'clock");
  assert.equal(
    recordOf({ level: "info", message: "m", timestamp: "1970-01-01T00:00:00.5Z" }).time,
    "1970-01-01T00:00:00.5Z",
  );
});

test("errors in all the ways that winston takes them", async (context) => {
  const make = () => Object.assign(new TypeError("declined", { cause: new Error("no card") }), { code: "E42" });
  const ways: [string, winston.LoggerOptions, (logger: winston.Logger) => void, string][] = [
    ["alone", {}, (logger) => logger.error(make()), "declined"],
    ["behind a message", {}, (logger) => logger.error("failed", make()), "failed declined"],
    ["as a member", {}, (logger) => logger.error("failed", { err: make() }), "failed"],
    [
      "as the message",
      {},
      (logger) => logger.log({ level: "error", message: make() as unknown as string }),
      "declined",
    ],
    [
      "with format.errors",
      { format: winston.format.errors({ stack: true }) },
      (logger) => logger.error(make()),
      "declined",
    ],
  ];
  for (const [name, options, log, message] of ways) {
    const { stub, logger, transport } = await setUp(context, {}, options);
    log(logger);
    await transport.flush();
    const [record] = records(stub);
    assert.equal(record?.message, message, name);
    assert.equal(record?.level, "error", name);
    assert.equal(record?.["exception.type"], "TypeError", name);
    assert.equal(record?.["exception.message"], "declined", name);
    assert.match(String(record?.["exception.stacktrace"]), /^TypeError: declined\n {4}at /, name);
    assert.equal(record?.stack, undefined, name);
    const members = (name === "as a member" ? record?.err : record) as Record<string, unknown> | undefined;
    const code = members?.code;
    if (name !== "as the message") assert.equal(code, "E42", name);
  }
});

test("levels of the program's own", async (context) => {
  const own = { levels: { loud: 0, quiet: 1 }, level: "quiet" };
  const { stub, logger, transport } = await setUp(context, { levels: { loud: "error" } }, own);
  logger.log("loud", "mapped");
  logger.log("quiet", "not mapped");
  await transport.flush();
  assert.deepEqual(
    records(stub).map((record) => record.level),
    ["error", undefined],
  );
});

test("the level of the transport", async (context) => {
  const { stub, logger, transport } = await setUp(context, { level: "error" });
  logger.info("too low");
  logger.error("high enough");
  await transport.flush();
  assert.deepEqual(
    records(stub).map((record) => record.message),
    ["high enough"],
  );
});

test("the end of a logger waits until its records are acknowledged", async (context) => {
  const { stub, logger, transport } = await setUp(context, { batchAgeMs: 3_600_000 });
  logger.info("last");
  logger.end();
  await once(logger, "finish");
  assert.equal(transport.stats().acknowledged, 1);
  assert.deepEqual(
    records(stub).map((record) => record.message),
    ["last"],
  );
});

test("with block, the transport waits for room", async (context) => {
  const { stub, logger } = await setUp(context, { whenFull: "block", blockTimeMs: 60_000, bufferBytes: 2000 });
  for (let index = 0; index < 50; index += 1) logger.info(String(index));
  logger.end();
  await once(logger, "finish");
  assert.deepEqual(
    records(stub).map((record) => record.message),
    Array.from({ length: 50 }, (_, index) => String(index)),
  );
});

test("a client of the program is used and not closed", async (context) => {
  const stub = await Stub.start();
  const client = new Client({ endpoints: stub.endpoint });
  context.after(async () => {
    await client.close();
    await stub.close();
  });
  const logger = winston.createLogger({ transports: [new BucksawTransport({ client })] });
  logger.info("a");
  logger.end();
  await once(logger, "finish");
  assert.equal(client.log({ message: "b" }), true);
  assert.equal(await client.flush(), true);
  assert.deepEqual(
    records(stub).map((record) => record.message),
    ["a", "b"],
  );
  assert.throws(() => new BucksawTransport({ client, batchBytes: 1 }), /^TypeError: client/);
  assert.throws(
    () => new BucksawTransport({ endpoint: "a" } as WinstonOptions),
    /^TypeError: endpoint: no such setting/,
  );
});

test("records that cannot be read do no harm", () => {
  const hostile = new Proxy(
    {},
    {
      get: () => {
        throw new Error("trap");
      },
    },
  );
  assert.equal(recordOf(hostile).message, "!ERROR: trap");
  assert.match(recordOf({ level: "info", message: { a: 1n } }).message, /a: 1n/);
});

test("records of winston can be read from a node", async (context) => {
  const node = await Node.start();
  context.after(() => node.stop());
  const { logger } = await setUp(context, { endpoints: node.endpoint, labels: { "service.name": "w" } });
  for (let index = 0; index < 1000; index += 1) logger.info("from winston", { index });
  logger.error("failed", new RangeError("range"));
  logger.end();
  await once(logger, "finish");
  const client = new Client({ endpoints: node.endpoint });
  context.after(() => client.close());
  assert.equal(await client.count("service.name=w"), 1001);
  const [failed] = await client.query("service.name=w level=error").toArray();
  assert.equal(failed?.attributes["exception.type"], "RangeError");
});
