// Encoding of values that JSON does not have, and of records that are no ordinary objects.

import assert from "node:assert/strict";
import { test } from "node:test";
import { runInNewContext } from "node:vm";
import { encodeRecord, type LogRecord } from "../dist/esm/record.js";
import { formatTime, nowMs, parseNanoseconds } from "../dist/esm/time.js";

function encode(record: LogRecord): Record<string, unknown> {
  const line = encodeRecord(record);
  assert.ok(line !== undefined);
  return JSON.parse(line) as Record<string, unknown>;
}

function value(given: unknown): unknown {
  return encode({ message: "m", attributes: { v: given } }).v;
}

test("values without a form in JSON become text", () => {
  class Point {
    x = 1;
    y = 2;
  }
  const rows: [unknown, unknown][] = [
    [Number.NaN, "NaN"],
    [Number.NEGATIVE_INFINITY, "-Infinity"],
    [-0, 0],
    [new Date(0), "1970-01-01T00:00:00.000Z"],
    [new Date(Number.NaN), "Invalid Date"],
    [123n, 123],
    [2n ** 70n, "1180591620717411303424"],
    [Symbol("s"), "Symbol(s)"],
    [function named() {}, "[function named]"],
    [Buffer.from([0x61, 0xff, 0x62]), "a\uFFFDb"],
    [new Uint8Array([0x61]).buffer, "a"],
    [new Float64Array([1.5, Number.NaN]), [1.5, "NaN"]],
    [
      new Map<unknown, unknown>([
        ["a", 1],
        [2, new Set([1])],
      ]),
      { a: 1, 2: [1] },
    ],
    [/x+/g, "/x+/g"],
    [new URL("http://a/"), "http://a/"],
    [new URLSearchParams("a=b"), "a=b"],
    [Promise.resolve(), "[object Promise]"],
    [Object(7), 7],
    [new Point(), { x: 1, y: 2 }],
    [Object.create(null), {}],
    ["\uD800x", "\uFFFDx"],
    [{ "\uDC00": "\uD800" }, { "\uFFFD": "\uFFFD" }],
    [
      [1, undefined, () => 1],
      [1, null, "[function ]"],
    ],
    [{ a: undefined, b: null }, { b: null }],
    [{ toJSON: () => ({ a: [1] }) }, { a: [1] }],
  ];
  for (const [given, wanted] of rows) assert.deepEqual(value(given), wanted);
  assert.equal(Object.hasOwn(encode({ message: "m", attributes: { v: undefined } }), "v"), false);
});

test("a value whose conversion fails becomes the reason, and the others stay", () => {
  const circular: Record<string, unknown> = { a: 1 };
  circular.self = circular;
  const revoked = Proxy.revocable({}, {});
  revoked.revoke();
  const attributes = {
    circular,
    get getter(): never {
      throw new Error("no getter");
    },
    nested: {
      get inner(): never {
        throw new TypeError("no inner");
      },
      after: 1,
    },
    toJSON_: {
      toJSON() {
        throw "text";
      },
    },
    strange: {
      toJSON() {
        throw Object.create(null);
      },
    },
    revoked: revoked.proxy,
    last: 1,
  };
  const object = encode({ message: "m", attributes });
  assert.deepEqual(object.circular, { a: 1, self: "!ERROR: circular reference" });
  assert.equal(object.getter, "!ERROR: no getter");
  assert.deepEqual(object.nested, { inner: "!ERROR: no inner", after: 1 });
  assert.equal(object.toJSON_, "!ERROR: text");
  assert.equal(object.strange, "!ERROR: unknown");
  assert.match(String(object.revoked), /^!ERROR: /);
  assert.equal(object.last, 1);
});

test("the same object twice is no circle", () => {
  const shared = { a: 1 };
  assert.deepEqual(value([shared, shared]), [shared, shared]);
});

test("deep, wide and endless values are bounded", () => {
  let deep: unknown = 1;
  for (let level = 0; level < 100_000; level += 1) deep = { deep };
  assert.match(JSON.stringify(value(deep)), /nested deeper than 32 levels/);

  const again: { toJSON(): unknown } = { toJSON: () => ({ ...again, toJSON: again.toJSON }) };
  assert.match(String(value(again)), /nested deeper/);

  // Each level contains the one below it twice: 2^30 members in all.
  let doubled: unknown = 1;
  for (let level = 0; level < 30; level += 1) doubled = [doubled, doubled];
  assert.equal(encodeRecord({ message: "m", attributes: { doubled } }), undefined);
  assert.equal(encodeRecord({ message: "m", attributes: { sparse: new Array(2 ** 32 - 1) } }), undefined);
  assert.equal(encodeRecord({ message: "m", attributes: { bytes: Buffer.alloc(8 << 20) } }), undefined);
  assert.equal(encodeRecord({ message: "m", attributes: { text: "x".repeat(1 << 20) } }), undefined);
  assert.equal(encodeRecord({ message: "m", attributes: { text: "é".repeat(600_000) } }), undefined);
  const endless = {
    *[Symbol.iterator]() {
      for (;;) yield ["a", 1];
    },
  };
  Object.setPrototypeOf(endless, Map.prototype);
  assert.doesNotThrow(() => encodeRecord({ message: "m", attributes: { endless } }));
});

test("names are bounded, and what is left out is counted", () => {
  const exact = `${"é".repeat(127)}x`;
  const object = encode({ message: "m", attributes: { [exact]: 1, [`${exact}y`]: 2, ["\uD800".repeat(86)]: 3 } });
  assert.equal(object[exact], 1);
  assert.equal(object["bucksaw.dropped_attributes"], 2);
});

test("objects of all kinds that a node would refuse become text", () => {
  const members = Object.fromEntries(Array.from({ length: 140 }, (_, index) => [`k${index}`, index]));
  const failure = Object.assign(new Error("e"), { name: "F", ...members });
  Object.defineProperty(failure, "stack", { value: "s" });
  const long = { toJSON: () => ({ ["x".repeat(300)]: 1 }) };
  const attributes = { a: new Map(Object.entries(members)), b: 1, c: { ...members, k: 1 }, long, d: failure };
  const object = encode({ message: "m", attributes, time: 0 });
  assert.deepEqual(object.a, members);
  assert.deepEqual(JSON.parse(String(object.c)), attributes.c);
  assert.deepEqual(JSON.parse(String(object.d)), { type: "F", message: "e", stack: "s", ...members });
  assert.deepEqual(JSON.parse(String(object.long)), long.toJSON());
  assert.equal(object.b, 1);
});

test("a long message is cut between characters", () => {
  for (const text of ["x", '"', "\u0001", "é", "😀", "\uD83D", "a😀\n\\é"]) {
    const message = text.repeat(1_200_000 / text.length);
    const line = encodeRecord({ message, level: "info", attributes: { a: "b" } }) ?? "";
    const bytes = Buffer.byteLength(line);
    assert.ok(bytes <= 1 << 20 && bytes > (1 << 20) - 16, `${JSON.stringify(text)}: ${bytes} bytes`);
    const object = JSON.parse(line) as { message: string; "bucksaw.truncated_bytes": number };
    assert.ok(message.toWellFormed().startsWith(object.message));
    assert.equal(object["bucksaw.truncated_bytes"], Buffer.byteLength(message) - Buffer.byteLength(object.message));
  }
});

test("a line of exactly 1 MiB is not cut, one byte more is", () => {
  const empty = encodeRecord({ message: "", time: 0 }) ?? "";
  const room = (1 << 20) - empty.length;
  assert.equal(encodeRecord({ message: "x".repeat(room), time: 0 })?.length, 1 << 20);
  assert.equal(encode({ message: "x".repeat(room), time: 0 })["bucksaw.truncated_bytes"], undefined);
  assert.ok(Number(encode({ message: "x".repeat(room + 1), time: 0 })["bucksaw.truncated_bytes"]) > 0);
});

test("attributes that leave no room for the message are dropped with their record, else the message is cut", () => {
  const empty = encodeRecord({ message: "", time: 0, attributes: { a: "" } }) ?? "";
  const room = (1 << 20) - empty.length;
  const fits = encode({ message: "message".repeat(10), time: 0, attributes: { a: "x".repeat(room - 40) } });
  assert.equal(fits["bucksaw.truncated_bytes"], 70 - String(fits.message).length);
  assert.equal(encodeRecord({ message: "message", time: 0, attributes: { a: "x".repeat(room - 6) } }), undefined);
});

test("an exception has its type, message, stack trace, causes and members", () => {
  class PaymentError extends Error {
    code = "E42";
  }
  const error = new PaymentError("declined", { cause: new TypeError("no card", { cause: "empty" }) });
  const object = encode({ message: "m", error });
  assert.equal(object["exception.type"], "PaymentError");
  assert.equal(object["exception.message"], "declined");
  const trace = String(object["exception.stacktrace"]);
  assert.match(trace, /Error: declined\n {4}at /);
  assert.match(trace, /\nCaused by: TypeError: no card\n[\s\S]*\nCaused by: empty$/);
  assert.deepEqual(object.error, { code: "E42" });

  const foreign = runInNewContext("new RangeError('far')") as unknown;
  assert.equal(encode({ message: "m", error: foreign })["exception.type"], "RangeError");
  assert.equal(encode({ message: "m", error: "thrown text" })["exception.message"], "thrown text");
  assert.deepEqual(encode({ message: "m", error: { a: 1 } }).error, { value: { a: 1 } });

  const all = new AggregateError([new Error("one"), new Error("two")], "all");
  assert.match(String(encode({ message: "m", error: all })["exception.stacktrace"]), /one[\s\S]*two/);
  const circle = new Error("circle");
  circle.cause = circle;
  assert.equal(encode({ message: "m", error: circle })["exception.message"], "circle");
});

test("an error among the attributes becomes an object", () => {
  const object = value(Object.assign(new Error("e"), { code: 1 })) as Record<string, unknown>;
  assert.deepEqual([object.type, object.message, object.code], ["Error", "e", 1]);
  assert.match(String(object.stack), /^Error: e\n/);
});

test("an exception counts among the attributes, so that a node accepts the record", () => {
  const attributes = Object.fromEntries(Array.from({ length: 300 }, (_, index) => [`a${index}`, index]));
  const object = encode({ message: "m", level: "info", logger: "l", error: new Error("e"), attributes });
  assert.equal(Object.keys(object).length, 250 + 4);
  assert.equal(object["logger.name"], "l");
  assert.equal(object["exception.type"], "Error");
  assert.equal(object["bucksaw.dropped_attributes"], 54);
});

test("records that callers without types make", () => {
  const given = (record: unknown) => encode(record as LogRecord);
  assert.equal(given({ message: 7 }).message, "7");
  assert.equal(given({}).message, "");
  assert.equal(given({ message: new Error("e") }).message, "e");
  assert.equal(String(given({ message: Object.create(null) }).message).slice(0, 8), "!ERROR: ");
  assert.equal(given({ message: "m", level: "loud" }).level, undefined);
  assert.equal(given({ message: "m", attributes: "text" }).attributes, "text");
  assert.match(String(given(null).message), /^!ERROR: /);
  assert.match(String(given(undefined).message), /^!ERROR: /);
  const hostile = new Proxy(
    {},
    {
      get: () => {
        throw new Error("trap");
      },
    },
  );
  assert.equal(given(hostile).message, "!ERROR: trap");
  assert.deepEqual(Object.keys(given({ message: "m", attributes: JSON.parse('{"__proto__":1}') })), [
    "time",
    "message",
    "__proto__",
  ]);
});

test("logging inside of a conversion does not disturb the record around it", () => {
  const inner = {
    toJSON() {
      encodeRecord({ message: "inner", attributes: { a: new Array(10).fill("x") } });
      return "done";
    },
  };
  assert.deepEqual(value([inner, 1]), ["done", 1]);
});

test("times", () => {
  const rows: [unknown, string | undefined][] = [
    [0, "1970-01-01T00:00:00.000000000Z"],
    [1795658400123.5, "2026-11-26T02:00:00.123500000Z"],
    [999.9999, "1970-01-01T00:00:00.999999000Z"],
    [1795658400123456789n, "2026-11-26T02:00:00.123456789Z"],
    [new Date(1795658400123), "2026-11-26T02:00:00.123000000Z"],
    ["2026-11-26T03:00:00.5+01:00", "2026-11-26T02:00:00.500000000Z"],
    ["2026-11-26 02:00:00.1234567891Z", "2026-11-26T02:00:00.123456789Z"],
    ["yesterday", undefined],
    [Number.NaN, undefined],
    [-1, undefined],
    [1e300, undefined],
    [new Date(Number.NaN), undefined],
    [2n ** 70n, undefined],
    [{}, undefined],
  ];
  for (const [time, wanted] of rows) assert.equal(formatTime(time), wanted);
  assert.match(String(encode({ message: "m", time: new Date(Number.NaN) }).time), /^\d{4}-/);
  assert.equal(parseNanoseconds("2026-11-26T02:00:00.123456Z"), 1795658400123456000n);
  assert.equal(parseNanoseconds("soon"), undefined);
});

test("the present time has the milliseconds of the system's clock, and does not go back", () => {
  let last = 0;
  for (let call = 0; call < 100_000; call += 1) {
    const before = Date.now();
    const now = nowMs();
    const after = Date.now();
    assert.ok(Math.floor(now) >= before && Math.floor(now) <= after);
    assert.ok(now >= last || before < Math.floor(last));
    last = now;
  }
});
