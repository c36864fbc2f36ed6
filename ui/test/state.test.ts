import { describe, expect, it } from "vitest";
import { Ring } from "../src/lib/ring.ts";
import { DEFAULT_STATE, type PageState, readState, writeState } from "../src/lib/url.ts";
import { rate } from "../src/nodes/history.ts";
import { LineCutter } from "../src/worker/ndjson.ts";
import { readLine } from "../src/worker/rows.ts";

describe("the address", () => {
  const states: Partial<PageState>[] = [
    {},
    { q: 'level=error "a & b" +%' },
    { range: { from: "15m", to: "" } },
    { range: { from: "2026-11-20T22:00:00.123456Z", to: "2026-11-20T23:00:00Z" }, order: "asc" },
    { columns: ["level", "odd name"], wrap: true, tail: true },
    { sort: { name: "status", descending: true }, by: "status", refresh: 10 },
    { sort: { name: "-", descending: false }, by: "" },
    { view: "nodes" },
    { record: "01ARZ3NDEKTSV4RRFFQ69G5FAV" },
  ];
  it.each(states)("%j", (change) => {
    const state = { ...DEFAULT_STATE, ...change };
    const url = new URL(writeState(state), "http://localhost");
    expect(readState(url.pathname, url.search)).toEqual(state);
  });

  it("of the plain page is short, and nonsense is passed over", () => {
    expect(writeState(DEFAULT_STATE)).toBe("/?q=");
    expect(readState("/", "")).toEqual({ ...DEFAULT_STATE, view: "start" });
    expect(writeState({ ...DEFAULT_STATE, view: "start", wrap: true })).toBe("/");
    expect(readState("/", "?order=up&record=<script>&wrap=yes&column=&column=a&column=a&refresh=1&sort=x")).toEqual({
      ...DEFAULT_STATE,
      columns: ["a"],
    });
  });
});

describe("lines of an answer", () => {
  const bytes = new TextEncoder().encode('{"a":"ü😀"}\n\nb\nrest');
  it.each([1, 2, 3, 5, 100])("in pieces of %d bytes", (size) => {
    const cutter = new LineCutter(100);
    const lines: string[] = [];
    for (let at = 0; at < bytes.length; at += size) lines.push(...cutter.push(bytes.slice(at, at + size)));
    expect(lines).toEqual(['{"a":"ü😀"}', "", "b"]);
    expect(cutter.isOpen).toBe(true);
  });

  it("are not longer than allowed", () => {
    const cutter = new LineCutter(5);
    cutter.push(new TextEncoder().encode("12345"));
    expect(() => cutter.push(new TextEncoder().encode("6"))).toThrow("longer than 5");
  });

  it("say what they say", () => {
    const id = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    const time = "2026-11-20T23:10:00.123456Z";
    expect(readLine(JSON.stringify({ id, time, labels: { app: "web" }, line: "ERROR x", cut: true }))).toEqual({
      kind: "row",
      row: { id, time, labels: { app: "web" }, text: "ERROR x", level: "error", binary: false, cut: true },
    });
    const attributes = { trace_id: "4bf9", level: "error" };
    expect(readLine(JSON.stringify({ id, time, labels: {}, line: "x", attributes }))).toMatchObject({
      row: { text: "x", attributes, level: "error" },
    });
    const mixed = { id, time, labels: {}, line: "x", attributes: { a: "1" }, attributes_base64: { b: btoa("\xff") } };
    expect(readLine(JSON.stringify(mixed))).toMatchObject({ row: { attributes: { a: "1", b: "\ufffd" } } });
    const binary = readLine(JSON.stringify({ id, time, labels: {}, line_base64: btoa("a\xff") }));
    expect(binary).toMatchObject({ kind: "row", row: { text: "a\ufffd", binary: true } });
    expect(readLine('{"skipped_records":3}')).toEqual({ kind: "skipped", records: 3, bytes: 0 });
    expect(readLine('{"buckets":[],"progress":0.5}')).toEqual({
      kind: "buckets",
      buckets: [],
      progress: 0.5,
      stats: undefined,
    });
    expect(readLine('{"stats":{}}').kind).toBe("stats");
    expect(readLine('{"lost":"is down","node":"a:1"}')).toEqual({ kind: "node", address: "a:1", lost: "is down" });
    expect(readLine('{"joined":true,"node":"a:1"}')).toEqual({ kind: "node", address: "a:1", lost: undefined });
    expect(readLine('{"skipped_bytes":7,"node":"a:1"}')).toEqual({ kind: "skipped", records: 0, bytes: 7 });
    expect(readLine('{"later":1}').kind).toBe("nothing");
  });
});

it("rings keep the last and count the others", () => {
  const ring = new Ring<number>(3);
  expect([0, 1, 2, 3, 4].map((item) => ring.push(item))).toEqual([undefined, undefined, undefined, 0, 1]);
  expect([ring.at(-1), ring.at(0), ring.at(1), ring.at(2), ring.at(3)]).toEqual([undefined, 2, 3, 4, undefined]);
  expect([ring.length, ring.dropped]).toEqual([3, 2]);
  ring.clear();
  expect([ring.length, ring.dropped, ring.at(0)]).toEqual([0, 0, undefined]);
});

it("rates are of counters, and of restarts none", () => {
  const times = [0, 5, 10, 15].map((seconds) => new Date(seconds * 1_000).toISOString());
  const history = { step_seconds: 5, times, series: { x: [10, 60, 5, 105] } };
  expect(rate(history, "x")[1]).toEqual([null, 10, 0, 20]);
});
