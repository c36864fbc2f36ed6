/**
 * Reads answers: fetches, splits into lines, parses, and posts rows in small batches, so that the page's thread only renders.
 * Cancelling an answer closes its connection, and the node stops the query.
 */
import type { Failure, Order, Row, WorkerMessage } from "./messages.ts";
import { LineCutter } from "./ndjson.ts";
import { readLine } from "./rows.ts";

/** Maximum rows of a batch. */
const BATCH_ROWS = 500;

/** Characters at which a batch is complete. */
const BATCH_CHARS = 1 << 20;

/** Maximum characters of a line: an escaped record of maximum size with its labels. */
const LINE_MAX = 64 << 20;

const running = new Map<number, AbortController>();

const send = (message: WorkerMessage) => postMessage(message);

addEventListener("message", ({ data }: MessageEvent<Order>) => {
  if (data.kind === "cancel") {
    running.get(data.stream)?.abort();
    running.delete(data.stream);
    return;
  }
  const controller = new AbortController();
  running.set(data.stream, controller);
  read(data.stream, data.url, controller.signal).then(
    (message) => {
      if (running.delete(data.stream)) send(message);
    },
    (error: unknown) => {
      if (!running.delete(data.stream)) return;
      const message = error instanceof Error ? error.message : String(error);
      send({ kind: "failed", stream: data.stream, failure: { kind: "lost", message } });
    },
  );
});

async function read(stream: number, url: string, signal: AbortSignal): Promise<WorkerMessage> {
  const response = await fetch(url, { signal, headers: { Accept: "application/x-ndjson" }, cache: "no-store" });
  if (!response.ok || response.body === null) return { kind: "failed", stream, failure: await refusal(response) };
  send({ kind: "open", stream });
  const cutter = new LineCutter(LINE_MAX);
  let rows: Row[] = [];
  let chars = 0;
  const flush = () => {
    if (rows.length > 0) send({ kind: "rows", stream, rows });
    rows = [];
    chars = 0;
  };
  const reader = response.body.getReader();
  let end: WorkerMessage | undefined;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    for (const line of cutter.push(value)) {
      if (line === "") continue;
      const parsed = readLine(line);
      if (parsed.kind === "row") {
        rows.push(parsed.row);
        chars += charsOf(parsed.row);
        if (rows.length >= BATCH_ROWS || chars >= BATCH_CHARS) flush();
      } else if (parsed.kind === "buckets") {
        send({ ...parsed, stream });
        if (parsed.stats !== undefined) end = { kind: "end", stream, stats: parsed.stats };
      } else if (parsed.kind === "node") {
        // A notice keeps its position between records.
        flush();
        send({ ...parsed, stream });
      } else if (parsed.kind === "skipped") send({ ...parsed, stream });
      else if (parsed.kind === "stats") end = { kind: "end", stream, stats: parsed.stats };
    }
    flush();
  }
  // An answer without its last line is incomplete.
  const failure: Failure = { kind: "lost", message: "the answer is incomplete" };
  return end ?? { kind: "failed", stream, failure };
}

async function refusal(response: Response): Promise<Failure> {
  const body = (await response.json().catch(() => undefined)) as { error?: string } | undefined;
  const message = body?.error ?? `the node answered with status ${response.status}`;
  const busy = response.status === 429 || response.status === 503;
  const kind = response.status === 401 ? "unauthorized" : busy ? "busy" : "refused";
  return { kind, message };
}

/** The characters of a record. */
function charsOf({ text, attributes = {} }: Row): number {
  return Object.values(attributes).reduce((sum, value) => sum + value.length, text.length);
}
