// The buffer of a client, and the task that sends it batch by batch.

import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { hold, release, type Unsent } from "./exit.js";
import type { Failures } from "./failures.js";
import type { Connections } from "./http.js";
import { makeKey } from "./key.js";
import { type Outcome, outcomeOf, pauseMs } from "./outcome.js";
import { reasonOf } from "./record.js";
import { ingestUrl, type ResolvedSettings, TIMER_MS_MAX } from "./settings.js";

/** Numbers of records by what became of them. `logged` is the sum of all but `retries`, `denied` and `bufferedBytes`. */
export interface Stats {
  /** Records given to the client. */
  logged: number;
  /** Stored by a node. */
  acknowledged: number;
  /** Refused one by one by a node that stored the rest of their batch. */
  rejected: number;
  /** Attempts to send a batch again. */
  retries: number;
  /** Attempts that a node refused with 401 or 403: the client has no token, or one that does not suffice. */
  denied: number;
  dropped: {
    /** Did not fit into the buffer. */
    full: number;
    /** In a batch that a node refused. */
    refused: number;
    /** In a batch that was six days old. */
    tooOld: number;
    /** Attributes of more than 1 MiB. */
    tooLarge: number;
    /** Logged after closing, or not acknowledged within the close time. */
    closed: number;
  };
  /** Records that are not yet acknowledged. */
  bufferedRecords: number;
  /** Bytes of their encoded lines. */
  bufferedBytes: number;
}

/** Sources of time and chance. */
export interface Environment {
  /** Milliseconds since 1970. */
  now(): number;
  /** From 0 to 1. */
  random(): number;
}

const LINE_END = 0x0a;
/** Memory of an open batch at first. */
const OPEN_BYTES_MIN = 4 << 10;
/** Smaller bodies are sent as they are. */
const GZIP_BYTES_MIN = 1 << 10;
/** The fastest level, because the program's own work comes first. */
const GZIP_LEVEL = 1;
/** Nodes recognise keys for a week. */
const KEY_AGE_MS_MAX = 6 * 24 * 60 * 60 * 1000;

const compress = promisify<Buffer, { level: number }, Buffer>(gzip);

interface Batch {
  /** Batches are settled in the order of this number. */
  sequence: number;
  records: number;
  /** The encoded lines. */
  body: Buffer;
  madeMs: number;
  key: string;
  /** Acknowledged or dropped. */
  settled: boolean;
}

interface FlushWaiter {
  sequence: number;
  resolve(sufficed: boolean): void;
}

interface RoomWaiter {
  line: string;
  bytes: number;
  timer: NodeJS.Timeout;
  resolve(buffered: boolean): void;
}

/** Buffers encoded lines and sends them. */
export class Sender implements Unsent {
  readonly #settings: ResolvedSettings;
  readonly #connections: Connections;
  readonly #failures: Failures;
  readonly #environment: Environment;

  #stats: Stats = {
    logged: 0,
    acknowledged: 0,
    rejected: 0,
    retries: 0,
    denied: 0,
    dropped: { full: 0, refused: 0, tooOld: 0, tooLarge: 0, closed: 0 },
    bufferedRecords: 0,
    bufferedBytes: 0,
  };
  /** The open batch: memory, and how much of it is used. */
  #open = Buffer.alloc(0);
  #openBytes = 0;
  #openRecords = 0;
  /** On the monotonic clock. */
  #openedMs = 0;
  #ageTimer: NodeJS.Timeout | undefined;
  readonly #sealed: Batch[] = [];
  #current: Batch | undefined;
  #sealedSequence = 0;
  #settledSequence = 0;
  #running = false;
  #closing: Promise<boolean> | undefined;
  /** The client is being closed, or the process ends: the close time runs. */
  #ending = false;
  #abandoning = false;
  #endpoint = 0;
  /** Ends the attempt or pause of the current batch. */
  #abort = new AbortController();
  /** Ends a pause. */
  #endPause: (() => void) | undefined;
  readonly #flushWaiters = new Set<FlushWaiter>();
  readonly #roomWaiters: RoomWaiter[] = [];
  #waitingBytes = 0;

  constructor(
    settings: ResolvedSettings,
    connections: Connections,
    failures: Failures,
    environment: Environment = { now: Date.now, random: Math.random },
  ) {
    this.#settings = settings;
    this.#connections = connections;
    this.#failures = failures;
    this.#environment = environment;
  }

  /** A copy of the counters. */
  stats(): Stats {
    return { ...this.#stats, dropped: { ...this.#stats.dropped } };
  }

  /** Buffers a line, or drops it. Returns whether it is buffered. `undefined` is a record that was too large to encode. */
  offer(line: string | undefined): boolean {
    if (line === undefined) return this.#dropTooLarge();
    if (this.#closing !== undefined) return this.#dropClosed();
    const bytes = lineBytes(line);
    if (!this.#hasRoom(bytes)) {
      this.#sendIfIdle();
      return this.#dropFull();
    }
    return this.#append(line, bytes) || this.#dropFull();
  }

  /** Like `offer`, but waits for room if the settings say so. */
  offerWaiting(line: string | undefined): Promise<boolean> {
    const { whenFull, blockTimeMs, bufferBytes } = this.#settings;
    const bytes = line === undefined ? 0 : lineBytes(line);
    // Lines that wait are memory too, so as many as the buffer holds may wait.
    const waits = whenFull === "block" && bytes <= bufferBytes && this.#waitingBytes + bytes <= bufferBytes;
    const ordered = this.#roomWaiters.length === 0 && this.#hasRoom(bytes);
    if (line === undefined || this.#closing !== undefined || ordered || !waits) {
      return Promise.resolve(this.offer(line));
    }
    this.#sendIfIdle();
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.#roomWaiters.splice(this.#roomWaiters.indexOf(waiter), 1);
        this.#waitingBytes -= bytes;
        resolve(this.#dropFull());
      }, blockTimeMs);
      const waiter: RoomWaiter = { line, bytes, timer, resolve };
      this.#roomWaiters.push(waiter);
      this.#waitingBytes += bytes;
    });
  }

  /** Sends at once. Returns whether all records were acknowledged or dropped within the time. */
  flush(timeMs: number): Promise<boolean> {
    if (this.#openRecords > 0) this.#seal();
    const sequence = this.#sealedSequence;
    if (sequence <= this.#settledSequence) return Promise.resolve(true);
    return new Promise((resolve) => {
      // This timer keeps the process alive; connections and other timers do not.
      const timer = setTimeout(() => waiter.resolve(false), Math.min(Math.max(timeMs, 0) || 0, TIMER_MS_MAX));
      const waiter: FlushWaiter = {
        sequence,
        resolve: (sufficed) => {
          clearTimeout(timer);
          this.#flushWaiters.delete(waiter);
          resolve(sufficed);
        },
      };
      this.#flushWaiters.add(waiter);
    });
  }

  /** Sends within the close time, and drops the rest. */
  close(): Promise<boolean> {
    this.#closing ??= this.#finish();
    return this.#closing;
  }

  async drain(): Promise<boolean> {
    const sufficed = await this.#finish();
    // The program may go on.
    this.#ending = this.#closing !== undefined;
    return sufficed;
  }

  abandon(): void {
    this.#dropBuffered("the process ended before the records were acknowledged");
    // The handler of failures may log.
    if (this.#abandoning) return;
    this.#abandoning = true;
    this.#failures.flush();
    this.#abandoning = false;
  }

  async #finish(): Promise<boolean> {
    this.#admitWaiting(Number.POSITIVE_INFINITY);
    const flushed = this.flush(this.#settings.closeTimeMs);
    this.#ending = true;
    this.#endPause?.();
    const sufficed = await flushed;
    if (!sufficed) {
      this.#dropBuffered(`the records were not acknowledged within ${this.#settings.closeTimeMs} ms`);
    }
    this.#failures.flush();
    return sufficed;
  }

  #hasRoom(bytes: number): boolean {
    return this.#stats.bufferedBytes + bytes <= this.#settings.bufferBytes;
  }

  /** Adds a line to the open batch, unless the system has no memory for it. */
  #append(line: string, bytes: number): boolean {
    const { batchBytes, batchRecords } = this.#settings;
    if (this.#openBytes > 0 && this.#openBytes + bytes > batchBytes) this.#seal();
    if (this.#openBytes + bytes > this.#open.length && !this.#grow(this.#openBytes + bytes)) return false;
    if (this.#openRecords === 0) {
      this.#openedMs = performance.now();
      if (!this.#running) this.#armAgeTimer();
    }
    this.#open.write(line, this.#openBytes);
    this.#openBytes += bytes;
    this.#open[this.#openBytes - 1] = LINE_END;
    this.#openRecords += 1;

    this.#stats.logged += 1;
    this.#stats.bufferedBytes += bytes;
    this.#stats.bufferedRecords += 1;
    if (this.#stats.bufferedRecords === 1) hold(this);
    if (this.#openBytes >= batchBytes || this.#openRecords >= batchRecords) this.#seal();
    return true;
  }

  /** Doubles the memory of the open batch, up to the size of a batch. */
  #grow(bytes: number): boolean {
    const doubled = Math.min(Math.max(2 * this.#open.length, OPEN_BYTES_MIN), this.#settings.batchBytes);
    let grown: Buffer<ArrayBuffer>;
    try {
      grown = Buffer.allocUnsafeSlow(Math.max(doubled, bytes));
    } catch {
      return false;
    }
    this.#open.copy(grown, 0, 0, this.#openBytes);
    this.#open = grown;
    return true;
  }

  #dropTooLarge(): false {
    this.#stats.logged += 1;
    this.#stats.dropped.tooLarge += 1;
    this.#failures.report("too_large", 1, "the attributes of a record are longer than 1 MiB");
    return false;
  }

  #dropClosed(): false {
    this.#stats.logged += 1;
    this.#stats.dropped.closed += 1;
    this.#failures.report("closed", 1, "a record was logged after the client was closed");
    return false;
  }

  #dropFull(): false {
    this.#stats.logged += 1;
    this.#stats.dropped.full += 1;
    this.#failures.report("full", 1, `the buffer of ${this.#settings.bufferBytes} bytes is full`);
    return false;
  }

  #armAgeTimer(): void {
    const left = this.#openedMs + this.#settings.batchAgeMs - performance.now();
    clearTimeout(this.#ageTimer);
    this.#ageTimer = setTimeout(() => this.#wake(), Math.max(left, 0)).unref();
  }

  /** Makes a batch of the open lines. */
  #seal(): void {
    const madeMs = this.#environment.now();
    this.#sealedSequence += 1;
    this.#sealed.push({
      sequence: this.#sealedSequence,
      records: this.#openRecords,
      body: this.#open.subarray(0, this.#openBytes),
      madeMs,
      key: makeKey(madeMs),
      settled: false,
    });
    this.#open = Buffer.alloc(0);
    this.#openBytes = 0;
    this.#openRecords = 0;
    this.#wake();
  }

  /** Sends the open batch before its time, to make room. */
  #sendIfIdle(): void {
    if (!this.#running && this.#openRecords > 0) this.#seal();
  }

  #wake(): void {
    if (this.#running) return;
    this.#running = true;
    clearTimeout(this.#ageTimer);
    // Not in the call of the program that logs.
    setImmediate(() => void this.#run());
  }

  async #run(): Promise<void> {
    for (let batch = this.#next(); batch !== undefined; batch = this.#next()) {
      this.#current = batch;
      try {
        await this.#deliver(batch);
      } catch (thrown) {
        this.#drop(batch, "refused", `a batch cannot be sent: ${reasonOf(thrown)}`);
      }
      this.#current = undefined;
    }
    this.#running = false;
    if (this.#openRecords > 0) this.#armAgeTimer();
  }

  /** The next batch. While one is sent, the open one grows beyond its age. */
  #next(): Batch | undefined {
    // Timers can be early by a fraction of a millisecond.
    const age = performance.now() - this.#openedMs + 1;
    if (this.#sealed.length === 0 && this.#openRecords > 0 && age >= this.#settings.batchAgeMs) this.#seal();
    return this.#sealed.shift();
  }

  /** Sends a batch until it is acknowledged or dropped. */
  async #deliver(batch: Batch): Promise<void> {
    const body = batch.body.length < GZIP_BYTES_MIN ? batch.body : await compressOr(batch.body);
    const compressed = body !== batch.body;

    let failures = 0;
    let wasEnding = this.#ending;
    for (let attempt = 1; !batch.settled; attempt += 1) {
      if (this.#environment.now() - batch.madeMs >= KEY_AGE_MS_MAX) {
        return this.#drop(batch, "tooOld", "no node has accepted a batch for six days");
      }
      if (attempt > 1) this.#stats.retries += 1;
      const outcome = await this.#attempt(batch, body, compressed);
      if (batch.settled) return;
      if (outcome.kind === "acknowledged") return this.#acknowledge(batch, outcome);
      if (outcome.kind === "refused") return this.#drop(batch, "refused", outcome.error);
      if (outcome.kind === "denied") this.#stats.denied += 1;
      this.#failures.report(outcome.kind, batch.records, `${outcome.error}${this.#connections.problems()}`);
      this.#endpoint = (this.#endpoint + 1) % this.#settings.endpoints.length;
      // At the end the time is short, so the pauses begin anew with the shortest one.
      failures = this.#ending && !wasEnding ? 1 : failures + 1;
      wasEnding = this.#ending;
      await this.#pause(failures, this.#ending ? 0 : outcome.retryAfterSeconds);
    }
  }

  async #attempt(batch: Batch, body: Buffer, compressed: boolean): Promise<Outcome> {
    const endpoint = this.#settings.endpoints[this.#endpoint];
    if (endpoint === undefined) throw new Error("there is no endpoint");
    const headers: Record<string, string> = { "content-type": "application/x-ndjson", "idempotency-key": batch.key };
    if (compressed) headers["content-encoding"] = "gzip";
    const url = ingestUrl(endpoint, this.#settings);
    const signal = this.#abort.signal;
    let outcome: Outcome;
    try {
      const request = { method: "POST", url, endpoint, headers, body, signal } as const;
      const answer = await this.#connections.exchange(request, this.#settings.requestTimeMs, true);
      outcome = outcomeOf(answer.status, answer.retryAfter, answer.body);
    } catch (thrown) {
      outcome = { kind: "retry", retryAfterSeconds: 0, error: reasonOf(thrown) };
    }
    return outcome.error === undefined ? outcome : { ...outcome, error: `${endpoint.base}: ${outcome.error}` };
  }

  /** Waits before a retry. Ends early when the batch is dropped, and when the client begins to close. */
  #pause(failures: number, retryAfterSeconds: number): Promise<void> {
    return new Promise((resolve) => {
      const signal = this.#abort.signal;
      const end = () => {
        clearTimeout(timer);
        signal.removeEventListener("abort", end);
        this.#endPause = undefined;
        resolve();
      };
      const timer = setTimeout(end, pauseMs(failures, this.#environment.random(), retryAfterSeconds)).unref();
      signal.addEventListener("abort", end);
      this.#endPause = end;
    });
  }

  #acknowledge(batch: Batch, outcome: Outcome & { kind: "acknowledged" }): void {
    const rejected = Math.min(outcome.rejected, batch.records);
    this.#stats.rejected += rejected;
    this.#stats.acknowledged += batch.records - rejected;
    if (rejected > 0) this.#failures.report("rejected", rejected, outcome.error ?? "a node has rejected records");
    this.#settle(batch);
  }

  #drop(batch: Batch, reason: "refused" | "tooOld", message: string): void {
    if (batch.settled) return;
    this.#stats.dropped[reason] += batch.records;
    this.#failures.report(reason === "tooOld" ? "too_old" : "refused", batch.records, message);
    this.#settle(batch);
  }

  /** Drops all that is buffered, as after closing. */
  #dropBuffered(message: string): void {
    this.#admitWaiting(Number.POSITIVE_INFINITY);
    if (this.#openRecords > 0) this.#seal();
    const batches = this.#sealed.splice(0);
    if (this.#current !== undefined && !this.#current.settled) batches.unshift(this.#current);
    const records = batches.reduce((sum, batch) => sum + batch.records, 0);
    if (records === 0) return;
    this.#failures.report("closed", records, message);
    for (const batch of batches) {
      this.#stats.dropped.closed += batch.records;
      this.#settle(batch);
    }
    this.#abort.abort();
    this.#abort = new AbortController();
  }

  #settle(batch: Batch): void {
    batch.settled = true;
    this.#stats.bufferedRecords -= batch.records;
    this.#stats.bufferedBytes -= batch.body.length;
    this.#settledSequence = batch.sequence;
    if (this.#stats.bufferedRecords === 0) release(this);
    for (const waiter of this.#flushWaiters) {
      if (waiter.sequence <= batch.sequence) waiter.resolve(true);
    }
    this.#admitWaiting(this.#settings.bufferBytes);
  }

  /** Buffers lines that have waited for room, in their order, up to a size of the buffer. */
  #admitWaiting(bufferBytes: number): void {
    for (let waiter = this.#roomWaiters[0]; waiter !== undefined; waiter = this.#roomWaiters[0]) {
      if (this.#stats.bufferedBytes + waiter.bytes > bufferBytes) return;
      this.#roomWaiters.shift();
      this.#waitingBytes -= waiter.bytes;
      clearTimeout(waiter.timer);
      waiter.resolve(this.#append(waiter.line, waiter.bytes) || this.#dropFull());
    }
  }
}

/** The compressed body; the body itself if the system has no memory for that. */
async function compressOr(body: Buffer): Promise<Buffer> {
  try {
    return await compress(body, { level: GZIP_LEVEL });
  } catch {
    return body;
  }
}

function lineBytes(line: string): number {
  return Buffer.byteLength(line) + 1;
}
