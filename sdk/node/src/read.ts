// Reading: the lines of answers, and how answers end.

import type { ClientRequest, IncomingMessage } from "node:http";
import { ByteCollector } from "./bytes.js";
import { type Connections, describeFailure } from "./http.js";
import { cleanText, parseObject } from "./outcome.js";
import { type Endpoint, percentEncode, TIMER_MS_MAX } from "./settings.js";
import { formatTime, parseNanoseconds } from "./time.js";

/** Longest line of an answer in bytes. */
const LINE_BYTES_MAX = 16 << 20;
/** Most bytes of the answer of an error. */
const ERROR_BYTES_MAX = 64 << 10;
/** Longest silence of a node: its own limit for a query is 60 s by default. */
const IDLE_MS = 120_000;
/** Silence after which the system probes whether the other end of a connection still exists. */
const KEEP_ALIVE_MS = 30_000;
const LINE_END = 0x0a;

/** Why reading has failed. */
export type ReadErrorCode =
  /** No node could be reached, or none was ready to answer. */
  | "unavailable"
  /** A node has refused the request, for example because of the expression. */
  | "refused"
  /** The answer has ended before its statistics. */
  | "incomplete"
  /** Records may be missing; `reasons` says why. */
  | "partial"
  /** The answer is not one of a node. */
  | "invalid"
  /** A line of the answer is longer than 16 MiB. */
  | "too_long"
  /** A node has sent nothing for the idle time. */
  | "idle"
  /** The answer was not read to its end, or the client was closed. */
  | "cancelled";

/** An answer that could not be read to its end. */
export class ReadError extends Error {
  override readonly name = "ReadError";
  readonly code: ReadErrorCode;
  /** Reasons of a partial answer. */
  readonly reasons: readonly string[];
  /** Status of the answer, if there was one. */
  readonly status: number | undefined;

  constructor(code: ReadErrorCode, message: string, more: { reasons?: readonly string[]; status?: number } = {}) {
    super(message);
    this.code = code;
    this.reasons = more.reasons ?? [];
    this.status = more.status;
  }
}

/** Options of all ways of reading. */
export interface ReadOptions {
  /** Cancels reading, which then fails with the reason of the signal. */
  signal?: AbortSignal | undefined;
}

/** Options that select a range of time. */
export interface RangeOptions extends ReadOptions {
  /** A date, nanoseconds since 1970, or a text such as `15m` or `yesterday`; by default an hour ago. */
  from?: Date | bigint | string | undefined;
  /** By default now. */
  to?: Date | bigint | string | undefined;
  /** Zone of times that state none, such as `Europe/Berlin`; by default UTC. */
  timeZone?: string | undefined;
  /** Accept an answer that may lack records, instead of an error. */
  allowPartial?: boolean | undefined;
  /** Longest silence of the node in milliseconds; by default 120,000. */
  idleTimeMs?: number | undefined;
}

/** Options of a query. */
export interface QueryOptions extends RangeOptions {
  /** Maximum number of records. */
  limit?: number | undefined;
  /** Newest records first. */
  newestFirst?: boolean | undefined;
}

/** A record of an answer. */
export class StoredRecord {
  readonly id: string;
  /** Time of the event, in whole milliseconds. */
  readonly time: Date;
  /** Time of the event in nanoseconds since 1970. */
  readonly timeUnixNano: bigint;
  readonly labels: Readonly<Record<string, string>>;
  /** Attributes as text, with U+FFFD for bytes that are not UTF-8. */
  readonly attributes: Readonly<Record<string, string>>;
  /** The line as text, with U+FFFD for bytes that are not UTF-8. */
  readonly line: string;
  /** The record was cut for its length and continues in the next one. */
  readonly cut: boolean;
  /** The last record of a source that ended without a line end. */
  readonly unterminated: boolean;
  readonly #line: Buffer | undefined;
  readonly #attributes: ReadonlyMap<string, Buffer>;

  /** @internal */
  constructor(object: Record<string, unknown>) {
    const nanoseconds = typeof object.time === "string" ? parseNanoseconds(object.time) : undefined;
    if (typeof object.id !== "string" || nanoseconds === undefined) throw notOfANode();
    this.id = object.id;
    this.timeUnixNano = nanoseconds;
    this.time = new Date(Number(nanoseconds / 1_000_000n));
    this.labels = texts(object.labels);
    const attributes = texts(object.attributes);
    const bytes = new Map<string, Buffer>();
    for (const [name, value] of Object.entries(texts(object.attributes_base64))) {
      const decoded = Buffer.from(value, "base64");
      bytes.set(name, decoded);
      attributes[name] = decoded.toString("utf8");
    }
    this.attributes = attributes;
    this.#attributes = bytes;
    this.#line = typeof object.line_base64 === "string" ? Buffer.from(object.line_base64, "base64") : undefined;
    if (this.#line === undefined && typeof object.line !== "string") throw notOfANode();
    this.line = this.#line?.toString("utf8") ?? String(object.line);
    this.cut = object.cut === true;
    this.unterminated = object.unterminated === true;
  }

  /** The line, byte for byte. */
  lineBytes(): Buffer {
    return this.#line ?? Buffer.from(this.line);
  }

  /** An attribute, byte for byte. */
  attributeBytes(name: string): Buffer | undefined {
    const text = this.attributes[name];
    return this.#attributes.get(name) ?? (text === undefined ? undefined : Buffer.from(text));
  }
}

/** Statistics of an answer. Nodes of later versions may add members. */
export interface QueryStats {
  /** Number of records that matched. */
  readonly matched: number;
  /** Records may be missing. */
  readonly partial: boolean;
  /** Why records may be missing. */
  readonly partial_reasons: readonly string[];
  readonly [name: string]: unknown;
}

/** A notice among the records of a tail. */
export type Notice =
  | { readonly kind: "skipped_bytes"; readonly bytes: number }
  | { readonly kind: "skipped_records"; readonly records: number }
  | { readonly kind: "lost"; readonly node: string; readonly reason: string }
  | { readonly kind: "joined"; readonly node: string }
  | { readonly kind: "other"; readonly notice: Readonly<Record<string, unknown>> };

/** What a tail yields: a record, or a notice. */
export type TailEvent =
  | { readonly record: StoredRecord; readonly notice?: undefined }
  | { readonly record?: undefined; readonly notice: Notice };

function notOfANode(): ReadError {
  return new ReadError("invalid", "the answer is not one of a node");
}

/** Members of an object as texts. The result has no prototype, so that any name is an ordinary member. */
function texts(value: unknown): Record<string, string> {
  const result: Record<string, string> = Object.create(null);
  if (value === undefined) return result;
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw notOfANode();
  for (const [name, member] of Object.entries(value)) {
    result[name] = typeof member === "string" ? member : JSON.stringify(member);
  }
  return result;
}

/** The lines of an answer, as objects. Blank lines are passed over. A last line needs no line end. */
export async function* readLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Record<string, unknown>> {
  const begun = new ByteCollector();
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(LINE_END); end !== -1; end = chunk.indexOf(LINE_END, start)) {
      const part = chunk.subarray(start, end);
      checkLength(begun.length + part.length);
      start = end + 1;
      const object = parseLine(begun.length === 0 ? utf8(part) : begun.append(part).takeText(), notOfANode);
      if (object !== undefined) yield object;
    }
    checkLength(begun.length + chunk.length - start);
    begun.append(chunk.subarray(start));
  }
  // A connection can end anywhere in a line.
  const last = parseLine(begun.takeText(), incomplete);
  if (last !== undefined) yield last;
}

function checkLength(bytes: number): void {
  if (bytes <= LINE_BYTES_MAX) return;
  throw new ReadError("too_long", `a line of the answer is longer than ${LINE_BYTES_MAX} bytes`);
}

function utf8(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
}

/** The object of a line, or undefined for a blank one. */
function parseLine(text: string, failure: () => ReadError): Record<string, unknown> | undefined {
  if (text.trim() === "") return undefined;
  const object = parseObject(text);
  if (object === undefined) throw failure();
  return object;
}

function incomplete(): ReadError {
  return new ReadError("incomplete", "the answer has ended before its statistics");
}

/** Statistics of an object that has them. */
function statsOf(object: Record<string, unknown>): QueryStats | undefined {
  const stats = object.stats;
  if (stats === undefined) return undefined;
  if (typeof stats !== "object" || stats === null) throw notOfANode();
  const { matched, partial, partial_reasons: reasons } = stats as Record<string, unknown>;
  return {
    ...stats,
    matched: typeof matched === "number" ? matched : 0,
    partial: partial === true,
    partial_reasons: Array.isArray(reasons) ? reasons.map((reason) => cleanText(String(reason))) : [],
  };
}

function checkPartial(stats: QueryStats, allowPartial: boolean): void {
  if (!stats.partial || allowPartial) return;
  const reasons = stats.partial_reasons;
  throw new ReadError("partial", `records may be missing: ${reasons.join("; ") || "no reason is known"}`, { reasons });
}

/** The records of an answer to a query. Returns its statistics. */
export async function* readRecords(
  chunks: AsyncIterable<Uint8Array>,
  allowPartial: boolean,
): AsyncGenerator<StoredRecord, QueryStats> {
  for await (const object of readLines(chunks)) {
    const stats = statsOf(object);
    if (stats !== undefined) {
      checkPartial(stats, allowPartial);
      return stats;
    }
    // Nodes of later versions may send lines of other kinds.
    if (object.id !== undefined) yield new StoredRecord(object);
  }
  throw incomplete();
}

/** The answer to a query: records as they arrive, and then the statistics. It can be iterated once. */
export class QueryAnswer implements AsyncIterable<StoredRecord> {
  /**
   * The statistics, once the iteration has reached the end. Rejects with what the iteration throws, and with a
   * {@link ReadError} of code `cancelled` if it ends early.
   */
  readonly stats: Promise<QueryStats>;
  readonly #records: AsyncGenerator<StoredRecord, void>;
  #iterated = false;

  /** @internal */
  constructor(records: AsyncGenerator<StoredRecord, QueryStats>) {
    let settle: { resolve(stats: QueryStats): void; reject(error: unknown): void } | undefined;
    this.stats = new Promise((resolve, reject) => {
      settle = { resolve, reject };
    });
    // A program that ignores the statistics gets the error from the iteration.
    this.stats.catch(() => {});
    this.#records = (async function* () {
      try {
        settle?.resolve(yield* records);
      } catch (error) {
        settle?.reject(error);
        throw error;
      } finally {
        settle?.reject(new ReadError("cancelled", "the answer was not read to its end"));
      }
    })();
  }

  [Symbol.asyncIterator](): AsyncIterator<StoredRecord> {
    if (this.#iterated) throw new TypeError("an answer can be iterated once");
    this.#iterated = true;
    return this.#records;
  }

  /** All records, in memory. */
  async toArray(): Promise<StoredRecord[]> {
    const records: StoredRecord[] = [];
    for await (const record of this) records.push(record);
    return records;
  }
}

function noticeOf(object: Record<string, unknown>): Notice {
  const node = cleanText(String(object.node ?? ""));
  if (typeof object.skipped_bytes === "number") return { kind: "skipped_bytes", bytes: object.skipped_bytes };
  if (typeof object.skipped_records === "number") return { kind: "skipped_records", records: object.skipped_records };
  if (typeof object.lost === "string") return { kind: "lost", node, reason: cleanText(object.lost) };
  if (object.joined === true) return { kind: "joined", node };
  return { kind: "other", notice: object };
}

/** A request to read. */
interface ReadRequest {
  method: "GET" | "POST";
  path: string;
  accept: string;
  parameters: readonly (readonly [string, string | undefined])[];
  /** Undefined for no limit. */
  idleTimeMs: number | undefined;
  signal: AbortSignal | undefined;
}

/** Reads from nodes. */
export class Reader {
  readonly #endpoints: readonly Endpoint[];
  readonly #connections: Connections;
  readonly #closed = new AbortController();
  /** The endpoint that has answered last. */
  #endpoint = 0;

  constructor(endpoints: readonly Endpoint[], connections: Connections) {
    this.#endpoints = endpoints;
    this.#connections = connections;
  }

  /** Ends everything that is being read. */
  close(): void {
    this.#closed.abort(new ReadError("cancelled", "the client was closed"));
  }

  query(expression: string, options: QueryOptions): QueryAnswer {
    const chunks = this.#read({
      ...rangeRequest("query", expression, options),
      accept: "application/x-ndjson",
      parameters: [
        ...rangeParameters(expression, options),
        ["limit", options.limit === undefined ? undefined : String(options.limit)],
        ["order", options.newestFirst ? "desc" : undefined],
      ],
    });
    return new QueryAnswer(readRecords(chunks, options.allowPartial ?? false));
  }

  async count(expression: string, options: RangeOptions): Promise<number> {
    const request = {
      ...rangeRequest("count", expression, options),
      accept: "application/json",
      parameters: rangeParameters(expression, options),
    };
    for await (const object of readLines(this.#read(request))) {
      const stats = statsOf(object);
      if (stats === undefined) throw incomplete();
      checkPartial(stats, options.allowPartial ?? false);
      if (!Number.isSafeInteger(object.count)) throw notOfANode();
      return object.count as number;
    }
    throw incomplete();
  }

  async *tail(expression: string, options: ReadOptions): AsyncGenerator<TailEvent, never> {
    const chunks = this.#read({
      method: "GET",
      path: "tail",
      accept: "application/x-ndjson",
      parameters: [["q", expression]],
      idleTimeMs: undefined,
      signal: options.signal,
    });
    for await (const object of readLines(chunks)) {
      if (object.id !== undefined) yield { record: new StoredRecord(object) };
      else yield { notice: noticeOf(object) };
    }
    throw new ReadError("incomplete", "the node has ended the tail");
  }

  /** The body of the answer of the first node that answers. Ending the iteration early ends the request. */
  async *#read(read: ReadRequest): AsyncGenerator<Uint8Array, void> {
    const cancelling = cancelledBy(read.signal, this.#closed.signal);
    const { signal } = cancelling;
    const watch = new Watch(read.idleTimeMs);
    let opened: { request: ClientRequest; response: IncomingMessage } | undefined;
    try {
      signal.throwIfAborted();
      opened = await this.#open(read, signal, watch);
      const body = opened.response[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>;
      try {
        for (;;) {
          const { done, value } = await watch.during(opened.request, body.next());
          if (done) return;
          yield value;
        }
      } finally {
        // Only what is in memory already is read, so that the connection can be used again.
        while (opened.response.complete && !(await body.next()).done);
      }
    } catch (error) {
      // The reason of a signal is more exact than the failure that it causes.
      if (signal.aborted) throw signal.reason;
      if (error instanceof ReadError) throw error;
      throw watch.expired ?? new ReadError("incomplete", describeFailure(error));
    } finally {
      cancelling.release();
      if (opened?.response.readableEnded !== true) opened?.request.destroy();
    }
  }

  /** Asks each endpoint once, beginning with the one that has answered last, until one answers. */
  async #open(read: ReadRequest, signal: AbortSignal, watch: Watch) {
    let failure = new ReadError("unavailable", "there is no endpoint");
    const first = this.#endpoint;
    for (let tried = 0; tried < this.#endpoints.length; tried += 1) {
      const index = (first + tried) % this.#endpoints.length;
      const endpoint = this.#endpoints[index];
      if (endpoint === undefined) break;
      try {
        const opened = await this.#ask(endpoint, read, signal, watch);
        this.#endpoint = index;
        return opened;
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof ReadError && error.code === "refused") throw error;
        const reason = watch.expired?.message ?? `${describeFailure(error)}${this.#connections.problems()}`;
        const status = error instanceof ReadError && error.status !== undefined ? { status: error.status } : {};
        failure = new ReadError("unavailable", `${endpoint.base}: ${reason}`, status);
        watch.expired = undefined;
      }
    }
    throw failure;
  }

  async #ask(endpoint: Endpoint, read: ReadRequest, signal: AbortSignal, watch: Watch) {
    const given = read.parameters.flatMap(([name, value]) =>
      value === undefined ? [] : [`${name}=${percentEncode(value)}`],
    );
    const form = given.join("&");
    const posted = read.method === "POST";
    const headers: Record<string, string> = { accept: read.accept };
    if (posted) headers["content-type"] = "application/x-www-form-urlencoded";
    const request = this.#connections.start({
      method: read.method,
      url: `${endpoint.base}/api/v1/${read.path}${posted ? "" : `?${form}`}`,
      endpoint,
      headers,
      body: posted ? Buffer.from(form) : undefined,
      signal,
    });
    // Later failures are those of the response.
    request.on("error", () => {});
    // A tail can be silent for days. Probes of the system find a connection whose other end is gone.
    request.on("socket", (socket) => socket.setKeepAlive(true, KEEP_ALIVE_MS));
    const response = await watch.during(request, firstOf(request));
    const status = response.statusCode ?? 0;
    if (status === 200) return { request, response };

    const text = await watch.during(request, errorText(response));
    request.destroy();
    const error = parseObject(text)?.error;
    const reason = typeof error === "string" ? cleanText(error) : `status ${status}`;
    const message = status === 401 || status === 403 ? `${reason}${this.#connections.problems()}` : reason;
    throw new ReadError(status >= 500 || status === 429 || status === 408 ? "unavailable" : "refused", message, {
      status,
    });
  }
}

/** The response of a request. */
function firstOf(request: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.on("response", resolve);
    request.on("error", reject);
    request.on("close", () => reject(new Error("the connection was closed before the answer")));
  });
}

/** The body of an error, or an empty text if it is too long. */
async function errorText(response: IncomingMessage): Promise<string> {
  const body = new ByteCollector();
  for await (const chunk of response as AsyncIterable<Buffer>) {
    if (body.length + chunk.length > ERROR_BYTES_MAX) return "";
    body.append(chunk);
  }
  return body.takeText();
}

/** A signal that follows others until it is released. */
function cancelledBy(...signals: (AbortSignal | undefined)[]): { signal: AbortSignal; release(): void } {
  const controller = new AbortController();
  const given = signals.filter((signal) => signal !== undefined);
  const follow = (event: Event) => controller.abort((event.target as AbortSignal).reason);
  for (const signal of given) {
    if (signal.aborted) controller.abort(signal.reason);
    else signal.addEventListener("abort", follow);
  }
  return {
    signal: controller.signal,
    release: () => {
      for (const signal of given) signal.removeEventListener("abort", follow);
    },
  };
}

/** Ends a request whose node sends nothing for some time. The time in which the caller does not read is not counted. */
class Watch {
  /** Set when the time is over. */
  expired: ReadError | undefined;
  readonly #idleMs: number | undefined;

  constructor(idleMs: number | undefined) {
    this.#idleMs = idleMs;
  }

  async during<T>(request: ClientRequest, work: Promise<T>): Promise<T> {
    const idleMs = this.#idleMs;
    if (idleMs === undefined) return work;
    const timer = setTimeout(() => {
      this.expired = new ReadError("idle", `the node has sent nothing for ${idleMs} ms`);
      request.destroy(this.expired);
    }, idleMs);
    try {
      return await work;
    } finally {
      clearTimeout(timer);
    }
  }
}

function rangeRequest(
  path: string,
  expression: string,
  options: RangeOptions,
): Omit<ReadRequest, "accept" | "parameters"> {
  if (typeof expression !== "string") throw new TypeError("expression: expected a text");
  const idleTimeMs = Math.min(options.idleTimeMs ?? IDLE_MS, TIMER_MS_MAX);
  return { method: "POST", path, idleTimeMs, signal: options.signal };
}

function rangeParameters(expression: string, options: RangeOptions): [string, string | undefined][] {
  return [
    ["q", expression],
    ["from", timeParameter(options.from)],
    ["to", timeParameter(options.to)],
    ["tz", options.timeZone],
  ];
}

function timeParameter(time: Date | bigint | string | undefined): string | undefined {
  if (time === undefined || typeof time === "string") return time;
  const text = formatTime(time);
  if (text === undefined) throw new RangeError("from, to: expected a time from 1970 to 9999");
  return text;
}
