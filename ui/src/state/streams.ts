import { needsZone } from "../lib/ranges.ts";
import type { Failure, Order, Row, WorkerMessage } from "../worker/messages.ts";
import workerUrl from "../worker/stream.worker.ts?worker&url";
import { refused } from "./access.ts";
import { shownZone } from "./zone.ts";

/** Callbacks of a reader of an answer. */
export type OnMessage = (message: WorkerMessage) => void;

const listeners = new Map<number, OnMessage>();
let worker: Worker | undefined;
let last = 0;

interface TrustedTypes {
  createPolicy(
    name: string,
    rules: { createScriptURL: (url: string) => string },
  ): {
    createScriptURL(url: string): string;
  };
}

/** The content-security policy allows no script URL but this one. */
function trusted(url: string): string {
  const types = (globalThis as { trustedTypes?: TrustedTypes }).trustedTypes;
  return types?.createPolicy("bucksaw", { createScriptURL: () => url }).createScriptURL(url) ?? url;
}

function start(): Worker {
  const started = new Worker(trusted(workerUrl), { type: "module" });
  started.onmessage = ({ data }: MessageEvent<WorkerMessage>) => {
    const onMessage = listeners.get(data.stream);
    // In place of all views the log-in is shown.
    if (data.kind === "failed" && data.failure.kind === "unauthorized") refused();
    if (data.kind === "end" || data.kind === "failed") listeners.delete(data.stream);
    onMessage?.(data);
  };
  started.onerror = () => {
    const failure: Failure = { kind: "lost", message: "the worker of the page did not start" };
    for (const [stream, onMessage] of listeners) onMessage({ kind: "failed", stream, failure });
    listeners.clear();
  };
  return started;
}

/** Reads the answer of a request in batches. The returned function cancels it; no callback runs after that. */
export function readStream(url: string, onMessage: OnMessage): () => void {
  worker ??= start();
  last += 1;
  const stream = last;
  listeners.set(stream, onMessage);
  const order: Order = { kind: "read", stream, url };
  worker.postMessage(order);
  return () => {
    if (listeners.delete(stream)) worker?.postMessage({ kind: "cancel", stream } satisfies Order);
  };
}

export type Parameters = Record<string, string | number | readonly string[] | undefined>;

/** The URL of a request. A list is a parameter that is repeated. */
export function callUrl(call: string, parameters: Parameters): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    // An empty value of a list is a value, such as the name of the stream without labels.
    if (Array.isArray(value)) for (const one of value) params.append(name, one);
    else if (value !== undefined && value !== "") params.set(name, String(value));
  }
  // The node reads `today` and `10:30` in the zone that the page shows.
  const { from, to } = parameters;
  if ([from, to].some((time) => typeof time === "string" && needsZone(time))) params.set("tz", shownZone());
  // Absolute, because a worker has another base URL.
  return `${location.origin}/api/v1/${call}?${params}`;
}

/** Fetches a short answer completely. */
export async function call<T>(name: string, parameters: Parameters, signal: AbortSignal) {
  const response = await fetch(callUrl(name, parameters), { signal, cache: "no-store" });
  if (response.status === 401) refused();
  const answer = (await response.json()) as T & { error?: string };
  if (!response.ok) throw new Error(answer.error ?? `the node answered with status ${response.status}`);
  return answer as T;
}

/** Reads the records of an answer completely; for a few of them. */
export function readRows(url: string, signal: AbortSignal): Promise<Row[]> {
  return new Promise((resolve, reject) => {
    const rows: Row[] = [];
    const cancel = readStream(url, (message) => {
      if (message.kind === "rows") rows.push(...message.rows);
      if (message.kind === "end") resolve(rows);
      if (message.kind === "failed") reject(new Error(message.failure.message));
    });
    signal.addEventListener("abort", () => {
      cancel();
      reject(signal.reason);
    });
  });
}
