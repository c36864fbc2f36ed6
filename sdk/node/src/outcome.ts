// What follows from the answer of a node to a batch, and how long a retry waits.

/** Longest pause that a node can ask for, in seconds. */
const RETRY_AFTER_SECONDS_MAX = 60;
/** Longest text of an error that is kept, in characters. */
const ERROR_CHARACTERS_MAX = 500;
const RETRY_STATUSES: ReadonlySet<number> = new Set([408, 429, 500, 502, 503, 504]);

/** What follows from an answer. */
export type Outcome =
  | { kind: "acknowledged"; accepted: number; rejected: number; error: string | undefined }
  | { kind: "retry"; retryAfterSeconds: number; error: string }
  /** As a retry: the node may accept another token, or this one later. */
  | { kind: "denied"; retryAfterSeconds: number; error: string }
  | { kind: "refused"; error: string };

/** The outcome of a complete answer. */
export function outcomeOf(status: number, retryAfter: string | undefined, body: string): Outcome {
  const parsed = parseObject(body);
  if (status === 200) {
    const accepted = parsed?.accepted;
    const rejected = parsed?.rejected;
    if (isCount(accepted) && isCount(rejected)) {
      return { kind: "acknowledged", accepted, rejected, error: rejected > 0 ? firstError(parsed?.errors) : undefined };
    }
    return { kind: "retry", retryAfterSeconds: 0, error: "the answer with status 200 is not one of a node" };
  }
  const error = typeof parsed?.error === "string" ? cleanText(parsed.error) : `status ${status}`;
  const denied = status === 401 || status === 403;
  if (!denied && !RETRY_STATUSES.has(status)) return { kind: "refused", error };
  return { kind: denied ? "denied" : "retry", retryAfterSeconds: retryAfterSeconds(retryAfter), error };
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** The object of a JSON text, or undefined. */
export function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** A text of a node for people: bounded, and without the control characters that could change a terminal. */
export function cleanText(text: string): string {
  return text
    .slice(0, ERROR_CHARACTERS_MAX)
    .toWellFormed()
    .replace(/\p{Cc}/gu, " ");
}

function firstError(errors: unknown): string | undefined {
  const first: unknown = Array.isArray(errors) ? errors[0] : undefined;
  if (typeof first === "string") return cleanText(first);
  if (typeof first !== "object" || first === null || !("error" in first)) return undefined;
  return cleanText(String(first.error));
}

function retryAfterSeconds(header: string | undefined): number {
  if (header === undefined || !/^\d+$/.test(header)) return 0;
  return Math.min(Number(header), RETRY_AFTER_SECONDS_MAX);
}

/** Milliseconds before attempt `attempt`, 1 for the first retry, with a random number from 0 to 1. */
export function pauseMs(attempt: number, random: number, retryAfter: number): number {
  const ceiling = Math.min(100 * 2 ** (attempt - 1), 10_000);
  return Math.max(ceiling / 2 + (random * ceiling) / 2, retryAfter * 1000);
}
