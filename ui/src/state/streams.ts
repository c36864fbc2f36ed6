import type { Failure, Order, Told } from "../worker/messages.ts";
import workerUrl from "../worker/stream.worker.ts?worker&url";

/** What an answer's reader hears. */
export type Hear = (told: Told) => void;

const listeners = new Map<number, Hear>();
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

/** The page's policy lets no text become a script's address but this one. */
function trusted(url: string): string {
  const types = (globalThis as { trustedTypes?: TrustedTypes }).trustedTypes;
  return types?.createPolicy("bucksaw", { createScriptURL: () => url }).createScriptURL(url) ?? url;
}

function start(): Worker {
  const started = new Worker(trusted(workerUrl), { type: "module" });
  started.onmessage = ({ data }: MessageEvent<Told>) => {
    const hear = listeners.get(data.stream);
    if (data.kind === "end" || data.kind === "failed") listeners.delete(data.stream);
    hear?.(data);
  };
  started.onerror = () => {
    const failure: Failure = { kind: "lost", message: "the page's reader could not be started" };
    for (const [stream, hear] of listeners) hear({ kind: "failed", stream, failure });
    listeners.clear();
  };
  return started;
}

/** Reads the answer of a call, piece by piece. The function that comes back lets go of it: nothing is heard after that. */
export function readStream(url: string, hear: Hear): () => void {
  worker ??= start();
  last += 1;
  const stream = last;
  listeners.set(stream, hear);
  const order: Order = { kind: "read", stream, url };
  worker.postMessage(order);
  return () => {
    if (listeners.delete(stream)) worker?.postMessage({ kind: "cancel", stream } satisfies Order);
  };
}

/** The address of a call. */
export function callUrl(call: string, parameters: Record<string, string | number | undefined>): string {
  const said = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== "") said.set(name, String(value));
  }
  // Absolute, because a worker's own address is another.
  return `${location.origin}/api/v1/${call}?${said}`;
}

/** A short answer, whole. */
export async function call<T>(
  name: string,
  parameters: Record<string, string | number | undefined>,
  signal: AbortSignal,
) {
  const response = await fetch(callUrl(name, parameters), { signal, cache: "no-store" });
  const said = (await response.json()) as T & { error?: string };
  if (!response.ok) throw new Error(said.error ?? `the node answered with status ${response.status}`);
  return said as T;
}
