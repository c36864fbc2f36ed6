// The examples that every SDK passes.

import assert from "node:assert/strict";
import { test } from "node:test";
import { makeKey } from "../dist/esm/key.js";
import { outcomeOf, pauseMs } from "../dist/esm/outcome.js";
import { encodeRecord, type Level } from "../dist/esm/record.js";
import { type Durability, ingestUrl, resolveSettings } from "../dist/esm/settings.js";
import { vectors } from "./support.js";

interface RecordVector {
  name: string;
  time_unix_nano: string;
  message?: string;
  message_repeat?: { text: string; count: number };
  level: Level | null;
  attributes: [string, unknown][];
  object?: Record<string, unknown>;
  truncated?: boolean;
}

test("vectors of records", async (suite) => {
  for (const vector of vectors<RecordVector[]>("records.json")) {
    await suite.test(vector.name, () => {
      const repeat = vector.message_repeat;
      const message = vector.message ?? repeat?.text.repeat(repeat.count) ?? "";
      const line = encodeRecord({
        time: BigInt(vector.time_unix_nano),
        message,
        level: vector.level ?? undefined,
        attributes: Object.fromEntries(vector.attributes),
      });
      assert.ok(line !== undefined);
      assert.ok(!line.includes("\n"));
      const object = JSON.parse(line) as Record<string, unknown>;
      assert.deepEqual(Object.keys(object).slice(0, 2), ["time", "message"]);
      if (vector.object !== undefined) assert.deepEqual(object, vector.object);
      if (vector.truncated) {
        const bytes = Buffer.byteLength(line);
        assert.ok(bytes <= 1 << 20 && bytes > (1 << 20) - 16, `${bytes} bytes`);
        const kept = object.message as string;
        assert.ok(message.startsWith(kept) && kept.isWellFormed());
        assert.equal(object["bucksaw.truncated_bytes"], Buffer.byteLength(message) - Buffer.byteLength(kept));
      }
    });
  }
});

test("vectors of requests", async (suite) => {
  interface Vector {
    name: string;
    endpoint: string;
    durability: Durability;
    labels: Record<string, string>;
    url: string;
  }
  for (const { name, endpoint, durability, labels, url } of vectors<Vector[]>("requests.json")) {
    await suite.test(name, () => {
      const settings = resolveSettings({ endpoints: endpoint, durability, labels });
      assert.equal(settings.endpoints.length, 1);
      for (const resolved of settings.endpoints) assert.equal(ingestUrl(resolved, settings), url);
    });
  }
});

test("vectors of labels", async (suite) => {
  interface Vector {
    name: string;
    labels: Record<string, string>;
    sent: Record<string, string> | null;
  }
  for (const { name, labels, sent } of vectors<Vector[]>("labels.json")) {
    await suite.test(name, () => {
      if (sent === null) assert.throws(() => resolveSettings({ labels }), /^(Type|Range)Error: labels/);
      else assert.deepEqual(resolveSettings({ labels }).labels, Object.entries(sent));
    });
  }
});

test("vectors of keys", () => {
  interface Vector {
    unix_ms: number;
    random_hex: string;
    key: string;
  }
  for (const vector of vectors<Vector[]>("keys.json")) {
    assert.equal(makeKey(vector.unix_ms, Buffer.from(vector.random_hex, "hex")), vector.key);
  }
});

test("vectors of outcomes", async (suite) => {
  interface Vector {
    name: string;
    status: number;
    headers: Record<string, string>;
    body: string;
    outcome: string;
    accepted?: number;
    rejected?: number;
    retry_after_seconds?: number;
    error?: string;
  }
  for (const vector of vectors<Vector[]>("outcomes.json")) {
    await suite.test(vector.name, () => {
      const outcome = outcomeOf(vector.status, vector.headers["Retry-After"], vector.body);
      assert.equal(outcome.kind, vector.outcome);
      if (outcome.kind === "acknowledged") {
        assert.deepEqual([outcome.accepted, outcome.rejected], [vector.accepted, vector.rejected]);
      } else if (outcome.kind === "retry" || outcome.kind === "denied") {
        assert.equal(outcome.retryAfterSeconds, vector.retry_after_seconds);
        if (vector.error !== undefined) assert.equal(outcome.error, vector.error);
      } else {
        assert.equal(outcome.error, vector.error);
      }
    });
  }
});

test("vectors of pauses", () => {
  interface Vector {
    attempt: number;
    random: number;
    retry_after_seconds: number;
    milliseconds: number;
  }
  for (const vector of vectors<Vector[]>("pauses.json")) {
    assert.equal(pauseMs(vector.attempt, vector.random, vector.retry_after_seconds), vector.milliseconds);
  }
});
