/**
 * Reads answers: fetches, splits into lines, parses, and posts rows in small batches, so that the page's thread only renders.
 * Cancelling an answer closes its connection, and the node stops the query.
 */
import type { Failure, Order, Row, Told } from "./messages.ts";
import { LineCutter } from "./ndjson.ts";
import { readLine } from "./rows.ts";

/** Maximum rows of a batch. */
const BATCH_ROWS = 500;

/** Characters at which a batch is complete. */
const BATCH_CHARS = 1 << 20;

/** Maximum characters of a line: an escaped record of maximum size with its labels. */
const LINE_MAX = 64 << 20;

const running = new Map<number, AbortController>();

const tell = (told: Told) => postMessage(told);

addEventListener("message", ({ data }: MessageEvent<Order>) => {
  if (data.kind === "cancel") {
    running.get(data.stream)?.abort();
    running.delete(data.stream);
    return;
  }
  const controller = new AbortController();
  running.set(data.stream, controller);
  read(data.stream, data.url, controller.signal).then(
    (told) => {
      if (running.delete(data.stream)) tell(told);
    },
    (error: unknown) => {
      if (!running.delete(data.stream)) return;
      const message = error instanceof Error ? error.message : String(error);
      tell({ kind: "failed", stream: data.stream, failure: { kind: "lost", message } });
    },
  );
});

async function read(stream: number, url: string, signal: AbortSignal): Promise<Told> {
  const response = await fetch(url, { signal, headers: { Accept: "application/x-ndjson" }, cache: "no-store" });
  if (!response.ok || response.body === null) return { kind: "failed", stream, failure: await refusal(response) };
  tell({ kind: "open", stream });
  const cutter = new LineCutter(LINE_MAX);
  let rows: Row[] = [];
  let chars = 0;
  const flush = () => {
    if (rows.length > 0) tell({ kind: "rows", stream, rows });
    rows = [];
    chars = 0;
  };
  const reader = response.body.getReader();
  let end: Told | undefined;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    for (const line of cutter.push(value)) {
      if (line === "") continue;
      const said = readLine(line);
      if (said.kind === "row") {
        rows.push(said.row);
        chars += said.row.text.length;
        if (rows.length >= BATCH_ROWS || chars >= BATCH_CHARS) flush();
      } else if (said.kind === "buckets") {
        tell({ ...said, stream });
        if (said.stats !== undefined) end = { kind: "end", stream, stats: said.stats };
      } else if (said.kind === "node") {
        // A notice keeps its position between records.
        flush();
        tell({ ...said, stream });
      } else if (said.kind === "skipped") tell({ ...said, stream });
      else if (said.kind === "stats") end = { kind: "end", stream, stats: said.stats };
    }
    flush();
  }
  // An answer without its last line is incomplete.
  const failure: Failure = { kind: "lost", message: "the answer is incomplete" };
  return end ?? { kind: "failed", stream, failure };
}

async function refusal(response: Response): Promise<Failure> {
  const said = (await response.json().catch(() => undefined)) as { error?: string } | undefined;
  const message = said?.error ?? `the node answered with status ${response.status}`;
  const busy = response.status === 429 || response.status === 503;
  return { kind: busy ? "busy" : "refused", message };
}
