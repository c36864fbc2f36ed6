/** The scopes of a context: the stream of a record, its host, and its trace. */
import type { Row } from "../worker/messages.ts";
import { valueOfField } from "./fields.ts";
import { equals } from "./terms.ts";

export type ScopeName = "stream" | "host" | "trace";

export interface Scope {
  name: ScopeName;
  /** What the records of the scope have in common, for people. */
  value: string;
  /** The expression of its records; empty for the stream, which a record's id determines. */
  q: string;
}

const HOSTS = ["host", "hostname", "host.name", "hostName", "node", "instance", "nodename"];
const TRACES = ["trace_id", "traceId", "trace.id", "traceID", "TraceId", "dd.trace_id", "otelTraceID", "trace"];

/** The scopes that a record has, its stream first. */
export function scopesOf(row: Row): Scope[] {
  const labels = Object.entries(row.labels);
  const stream = labels.map(([name, value]) => `${name}=${value}`).join(" ");
  const found: Scope[] = [{ name: "stream", value: stream === "" ? "without labels" : stream, q: "" }];
  for (const [name, names] of [
    ["host", HOSTS],
    ["trace", TRACES],
  ] as const) {
    for (const key of names) {
      const value = valueOfField(row, key);
      if (value === undefined || value === "" || value === "null" || value.length > 500) continue;
      found.push({ name, value: `${key}=${value}`, q: equals(key, value) });
      break;
    }
  }
  return found;
}
