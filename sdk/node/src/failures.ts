// Reports of failures: to the function of the program, or to standard error.

import { writeSync } from "node:fs";
import { cleanText } from "./outcome.js";

/** What has failed. All but `retry`, `denied` and `rejected` name the reason for which records were dropped. */
export type FailureKind = "retry" | "denied" | "rejected" | "full" | "refused" | "too_old" | "too_large" | "closed";

/** A failure, or several of one kind within a second. */
export interface Failure {
  kind: FailureKind;
  /** Number of records: dropped, rejected, or waiting for the retry. */
  records: number;
  /** A sentence for people. Text of a node in it is cut to 500 characters, without control characters. */
  message: string;
}

/** Gets failures. It is never called inside of a logging call, and what it throws is ignored. */
export type FailureHandler = (failure: Failure) => void;

/** Between two calls of a handler for one kind. Failures in between are added up. */
const HANDLER_INTERVAL_MS = 1_000;
/** Between two lines on standard error for one kind. */
const STDERR_INTERVAL_MS = 60_000;

interface Pending {
  records: number;
  /** Empty if there is nothing to report. */
  message: string;
  /** Runs after the first report. */
  timer: NodeJS.Timeout | undefined;
}

/** The records of such a failure are not lost, but sent again. */
function isRetried(kind: FailureKind): boolean {
  return kind === "retry" || kind === "denied";
}

/** Adds up failures by kind, and reports the first at once and the rest at intervals. */
export class Failures {
  readonly #handler: FailureHandler;
  readonly #intervalMs: number;
  /** Kinds that were reported within the interval. */
  readonly #kinds = new Map<FailureKind, Pending>();

  constructor(handler: FailureHandler | undefined) {
    this.#handler = handler ?? writeToStderr;
    this.#intervalMs = handler === undefined ? STDERR_INTERVAL_MS : HANDLER_INTERVAL_MS;
  }

  /** Reports a failure, soon after the caller has returned. */
  report(kind: FailureKind, records: number, message: string): void {
    const pending = this.#kinds.get(kind);
    if (pending !== undefined) {
      // Records that wait for a retry are the same ones each time.
      pending.records = isRetried(kind) ? records : pending.records + records;
      pending.message = message;
      return;
    }
    const opened: Pending = { records, message, timer: undefined };
    this.#kinds.set(kind, opened);
    queueMicrotask(() => {
      if (opened.timer === undefined) this.#deliver(kind, opened);
    });
  }

  /** Reports at the end what was added up, without waiting for the interval. Retries have lost no records. */
  flush(): void {
    // A copy, because a handler may cause failures.
    for (const [kind, pending] of [...this.#kinds]) {
      if (pending.message !== "" && !isRetried(kind)) this.#deliver(kind, pending);
    }
  }

  #deliver(kind: FailureKind, pending: Pending): void {
    const failure = { kind, records: pending.records, message: pending.message };
    pending.records = 0;
    pending.message = "";
    clearTimeout(pending.timer);
    pending.timer = setTimeout(() => {
      if (pending.message === "") this.#kinds.delete(kind);
      else this.#deliver(kind, pending);
    }, this.#intervalMs).unref();
    this.#call(failure);
  }

  #call(failure: Failure): void {
    // A handler that fails, now or later, must not end the program.
    try {
      const returned: unknown = this.#handler(failure);
      if (returned instanceof Promise) returned.catch(() => {});
    } catch {
      // See above.
    }
  }
}

/** Writes directly, because a program may send what it writes through `console` or `process.stderr` to its logger. */
function writeToStderr(failure: Failure): void {
  writeSync(2, `bucksaw: ${cleanText(failure.message)} (${failure.kind}, records: ${failure.records})\n`);
}
