// Reading: the vectors of answers, hostile answers of a stub, and the real program.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Client, type QueryOptions, ReadError, type ReadErrorCode, type StoredRecord } from "../dist/esm/index.js";
import { readLines, readRecords } from "../dist/esm/read.js";
import { answer, endless, hang, Node, type Reply, reset, Stub, until, vectors } from "./support.js";

const STATS = '{"stats":{"matched":1,"partial":false,"partial_reasons":[]}}\n';
const RECORD = '{"id":"01M8AS9GBVYSHY93FBPW000000","time":"2026-11-26T02:00:00.123456Z","labels":{},"line":"a"}\n';

async function* stream(chunks: Iterable<string | Uint8Array>): AsyncGenerator<Uint8Array> {
  for (const chunk of chunks) yield Buffer.from(chunk as string);
}

async function setUp(context: TestContext, ...script: Reply[]) {
  const stub = await Stub.start(...script);
  const client = new Client({ endpoints: stub.endpoint });
  context.after(async () => {
    await client.close();
    await stub.close();
  });
  return { stub, client };
}

/** The code of the error that a piece of work ends with. */
async function codeOf(work: Promise<unknown>): Promise<ReadErrorCode> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof ReadError, `no ReadError: ${error}`);
  return error.code;
}

interface AnswerVector {
  name: string;
  chunks: string[];
  records: {
    id: string;
    time_unix_nano: string;
    labels: Record<string, string>;
    attributes_base64: Record<string, string>;
    line_base64: string;
    cut: boolean;
    unterminated: boolean;
  }[];
  end: "complete" | "incomplete" | "partial" | "invalid";
  matched?: number;
  reasons?: string[];
}

function asVector(record: StoredRecord): AnswerVector["records"][number] {
  const names = Object.keys(record.attributes);
  return {
    id: record.id,
    time_unix_nano: String(record.timeUnixNano),
    labels: { ...record.labels },
    attributes_base64: Object.fromEntries(
      names.map((name) => [name, record.attributeBytes(name)?.toString("base64") ?? ""]),
    ),
    line_base64: record.lineBytes().toString("base64"),
    cut: record.cut,
    unterminated: record.unterminated,
  };
}

test("vectors of answers", async (suite) => {
  for (const vector of vectors<AnswerVector[]>("answers.json")) {
    await suite.test(vector.name, async () => {
      const found: StoredRecord[] = [];
      let end: string = "complete";
      let matched: number | undefined;
      let reasons: readonly string[] | undefined;
      const records = readRecords(stream(vector.chunks), false);
      try {
        for (;;) {
          const { done, value } = await records.next();
          if (done) {
            matched = value.matched;
            break;
          }
          found.push(value);
        }
      } catch (error) {
        assert.ok(error instanceof ReadError);
        end = error.code;
        reasons = error.reasons;
      }
      assert.deepEqual(found.map(asVector), vector.records);
      assert.equal(end, vector.end);
      if (vector.end === "complete") assert.equal(matched, vector.matched);
      if (vector.end === "partial") {
        assert.deepEqual(reasons, vector.reasons);
        const allowed = readRecords(stream(vector.chunks), true);
        let last = await allowed.next();
        while (!last.done) last = await allowed.next();
        assert.equal(last.value.matched, vector.matched);
        assert.equal(last.value.partial, true);
      }
    });
  }
});

test("a query sends its parameters as a form, and answers with records and statistics", async (context) => {
  const { stub, client } = await setUp(context, answer(200, RECORD + STATS));
  const options: QueryOptions = {
    from: new Date(0),
    to: "yesterday",
    timeZone: "Europe/Berlin",
    limit: 5,
    newestFirst: true,
  };
  const found = client.query('level=error "a b&c"', options);
  const records = await found.toArray();
  assert.equal((await found.stats).matched, 1);
  assert.deepEqual(
    records.map((record) => [record.line, record.time.toISOString()]),
    [["a", "2026-11-26T02:00:00.123Z"]],
  );
  assert.equal(stub.requests[0]?.method, "POST");
  assert.equal(stub.requests[0]?.url, "/api/v1/query");
  assert.equal(
    stub.requests[0]?.body,
    "q=level%3Derror%20%22a%20b%26c%22&from=1970-01-01T00%3A00%3A00.000000000Z&to=yesterday&tz=Europe%2FBerlin&limit=5&order=desc",
  );
  assert.throws(() => found[Symbol.asyncIterator](), /iterated once/);
});

test("records arrive before the answer is complete, and leaving early cancels the request", async (context) => {
  let cancelled = false;
  const { client } = await setUp(context, (_, response) => {
    response.write(RECORD);
    response.on("close", () => {
      cancelled = !response.writableFinished;
    });
  });
  const found = client.query("a");
  for await (const record of found) {
    assert.equal(record.line, "a");
    break;
  }
  await until("the node sees the end of the request", () => cancelled);
  assert.equal(await codeOf(found.stats), "cancelled");
});

test("a signal cancels reading with its reason", async (context) => {
  const { stub, client } = await setUp(context, hang, hang, hang);
  for (const read of [
    (signal: AbortSignal) => client.query("a", { signal }).toArray(),
    (signal: AbortSignal) => client.count("a", { signal }),
    (signal: AbortSignal) => client.tail("a", { signal }).next(),
  ]) {
    const requests = stub.requests.length;
    const controller = new AbortController();
    const reading = read(controller.signal);
    await until("the request has arrived", () => stub.requests.length > requests);
    controller.abort(new Error("enough"));
    await assert.rejects(reading, /^Error: enough$/);
  }
  await assert.rejects(client.count("a", { signal: AbortSignal.abort() }), { name: "AbortError" });
  await until("no connection is left", () => stub.sockets.size === 0);
});

test("closing the client ends what is being read", async (context) => {
  const { stub, client } = await setUp(context, hang);
  const reading = codeOf(client.tail("a").next());
  await until("the request has arrived", () => stub.requests.length === 1);
  await client.close();
  assert.equal(await reading, "cancelled");
  assert.equal(await codeOf(client.count("a")), "cancelled");
});

test("hostile answers end in a clear error", async (context) => {
  const flood: Reply = (_, response) => {
    response.write(RECORD + STATS);
    endless({} as never, response);
  };
  const { client } = await setUp(context);
  const rows: [Reply, ReadErrorCode | "none"][] = [
    [answer(200, "<html>\n"), "invalid"],
    [answer(200, "[1]\n"), "incomplete"],
    [answer(200, '{"id":1}\n'), "invalid"],
    [answer(200, '{"id":"a","time":"b","line":"c"}\n'), "invalid"],
    [answer(200, RECORD.replace("{}", "[]")), "invalid"],
    [answer(200, '{"stats":1}\n'), "invalid"],
    [answer(200, RECORD), "incomplete"],
    [endless, "too_long"],
    [flood, "none"],
    [reset, "unavailable"],
    [answer(503, '{"error":"busy"}'), "unavailable"],
    [answer(400, '{"error":"q: column 10: no"}'), "refused"],
    [answer(307, "", { location: "http://127.0.0.1:1/" }), "refused"],
    [(_, response) => endless({} as never, response.writeHead(400)), "refused"],
    [
      (_, response) => {
        response.write(RECORD);
        setImmediate(() => response.socket?.destroy());
      },
      "incomplete",
    ],
  ];
  for (const [index, [reply, code]] of rows.entries()) {
    const { client: asked } = await setUp(context, reply);
    const reading = asked.query("a").toArray();
    if (code === "none") assert.equal((await reading).length, 1);
    else assert.equal(await codeOf(reading), code, `row ${index}`);
  }
  await client.close();
});

test("errors name the node's reason", async (context) => {
  const { stub, client } = await setUp(
    context,
    answer(400, '{"error":"q: column 10: \\u001b[2J no"}'),
    answer(503, '{"error":"busy"}'),
  );
  await assert.rejects(client.count("a"), {
    name: "ReadError",
    code: "refused",
    status: 400,
    message: "q: column 10:  [2J no",
  });
  await assert.rejects(client.count("a"), { code: "unavailable", status: 503, message: `${stub.endpoint}: busy` });
});

test("a silent node costs the idle time; a caller that reads slowly does not", async (context) => {
  const { client } = await setUp(
    context,
    hang,
    (_, response) => response.write(RECORD),
    (_, response) => response.write(RECORD) && setTimeout(() => response.end(STATS), 10),
  );
  await assert.rejects(client.query("a", { idleTimeMs: 30 }).toArray(), {
    code: "unavailable",
    message: /nothing for 30 ms/,
  });
  await assert.rejects(client.query("a", { idleTimeMs: 500 }).toArray(), { code: "idle" });
  let read = 0;
  for await (const _ of client.query("a", { idleTimeMs: 1000 })) {
    read += 1;
    await new Promise((done) => setTimeout(done, 1200));
  }
  assert.equal(read, 1);
});

test("the next endpoint answers for one that does not", async (context) => {
  const { stub } = await setUp(context, answer(200, `{"count":7,${STATS.slice(1)}`));
  const client = new Client({ endpoints: ["127.0.0.1:1", stub.endpoint] });
  context.after(() => client.close());
  assert.equal(await client.count("a"), 7);
  // Reads at the same time do not disturb each other's turns.
  const fresh = new Client({ endpoints: ["127.0.0.1:1", stub.endpoint] });
  context.after(() => fresh.close());
  stub.script = new Array(5).fill(answer(200, `{"count":7,${STATS.slice(1)}`));
  assert.deepEqual(await Promise.all([1, 2, 3, 4, 5].map(() => fresh.count("a"))), [7, 7, 7, 7, 7]);
  const alone = new Client({ endpoints: "127.0.0.1:1" });
  context.after(() => alone.close());
  assert.equal(await codeOf(alone.count("a")), "unavailable");
});

test("counts are exact and complete, or errors", async (context) => {
  const partial = '{"count":3,"stats":{"matched":3,"partial":true,"partial_reasons":["node b is down"]}}';
  const { client } = await setUp(
    context,
    answer(200, partial),
    answer(200, partial),
    answer(200, '{"count":3}'),
    answer(200, '{"count":"3","stats":{}}'),
    answer(200, '{"count":3,"sta'),
    answer(200, ""),
  );
  await assert.rejects(client.count("a"), { code: "partial", reasons: ["node b is down"] });
  assert.equal(await client.count("a", { allowPartial: true }), 3);
  assert.equal(await codeOf(client.count("a")), "incomplete");
  assert.equal(await codeOf(client.count("a")), "invalid");
  assert.equal(await codeOf(client.count("a")), "incomplete");
  assert.equal(await codeOf(client.count("a")), "incomplete");
});

test("a tail yields records and notices, and its end is an error", async (context) => {
  const notices = [
    '{"skipped_bytes":5}',
    '{"skipped_records":6}',
    '{"lost":"down","node":"b"}',
    '{"joined":true,"node":"c"}',
    '{"later":1}',
  ];
  const { stub, client } = await setUp(context, answer(200, `${RECORD}${notices.join("\n")}\n${RECORD}`));
  const events: unknown[] = [];
  const reading = (async () => {
    for await (const { record, notice } of client.tail("level=error")) events.push(record?.line ?? notice);
  })();
  assert.equal(await codeOf(reading), "incomplete");
  assert.equal(stub.requests[0]?.url, "/api/v1/tail?q=level%3Derror");
  assert.deepEqual(events, [
    "a",
    { kind: "skipped_bytes", bytes: 5 },
    { kind: "skipped_records", records: 6 },
    { kind: "lost", node: "b", reason: "down" },
    { kind: "joined", node: "c" },
    { kind: "other", notice: { later: 1 } },
    "a",
  ]);
});

test("a line has at most 16 MiB, and memory does not depend on how it is divided", async () => {
  const long = `{"a":"${"x".repeat((16 << 20) - 8)}"}`;
  const lines = async (chunks: Iterable<string | Uint8Array>) => {
    let count = 0;
    for await (const _ of readLines(stream(chunks))) count += 1;
    return count;
  };
  assert.equal(await lines([long, "\n", "{}\n"]), 2);
  assert.equal(await codeOf(lines([long, "x"])), "too_long");
  assert.equal(await codeOf(lines([`${long}x\n`])), "too_long");
  assert.equal(await lines(Array.from({ length: 200_000 }, () => " ").concat("{}")), 1);
});

test("queries use one connection, if they are read to their end", async (context) => {
  const { stub, client } = await setUp(context, ...new Array(10).fill(answer(200, RECORD + STATS)));
  const seen = new Set();
  for (let index = 0; index < 10; index += 1) {
    assert.equal((await client.query("a").toArray()).length, 1);
    for (const socket of stub.sockets) seen.add(socket);
  }
  assert.equal(seen.size, 1);
});

test("arguments are checked", async (context) => {
  const { client } = await setUp(context);
  assert.throws(() => client.query(undefined as unknown as string), /^TypeError: expression/);
  await assert.rejects(client.count("a", { from: new Date(Number.NaN) }), /^RangeError: from, to/);
});

test("a node answers queries, counts and tails", { timeout: 60_000 }, async (context) => {
  const node = await Node.start();
  context.after(() => node.stop());
  const client = new Client({ endpoints: node.endpoint, labels: { "service.name": "shop" }, batchAgeMs: 10 });
  context.after(() => client.close());

  const tail = client.tail("order>4000");
  const first = tail.next();
  await until("the tail has begun", async () => {
    client.log({ message: "order", level: "info", attributes: { order: 5000 } });
    return Promise.race([first.then(() => true), new Promise<boolean>((done) => setTimeout(() => done(false), 20))]);
  });
  const event = (await first).value;
  assert.equal(event.record?.line, "order");
  assert.equal(event.record?.attributes.order, "5000");
  await tail.return(undefined as never);

  const time = BigInt(Date.now()) * 1_000_000n;
  for (let index = 0; index < 10; index += 1) {
    client.log({
      time: time + BigInt(index) * 1000n,
      message: `line ${index}\nsecond`,
      level: "error",
      attributes: { index },
    });
  }
  assert.equal(await client.flush(), true);
  assert.equal(await client.count("level=error"), 10);

  const oldest = await client.query("service.name=shop level=error", { limit: 3 }).toArray();
  assert.deepEqual(
    oldest.map((record) => record.line),
    ["line 0\nsecond", "line 1\nsecond", "line 2\nsecond"],
  );
  assert.equal(oldest[1]?.timeUnixNano, time + 1000n);
  assert.deepEqual({ ...oldest[0]?.labels }, { "service.name": "shop" });
  const newest = client.query("level=error", { newestFirst: true, limit: 1, from: "15m" });
  assert.deepEqual(
    (await newest.toArray()).map((record) => record.attributes.index),
    ["9"],
  );
  assert.equal((await newest.stats).partial, false);

  await assert.rejects(client.query("level===(").toArray(), { code: "refused", status: 400, message: /column/ });
  assert.equal(await client.count("nothing=here", { from: new Date(Date.now() - 60_000) }), 0);
});
