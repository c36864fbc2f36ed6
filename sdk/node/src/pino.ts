// The transport of pino: a stream of its lines, in a worker thread or in the program's own.

import { Writable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import { Client } from "./client.js";
import type { FailureHandler } from "./failures.js";
import { isLevel, type Level, type LogRecord } from "./record.js";
import type { Stats } from "./sender.js";
import { BUFFER_BYTES, type ClientSettings } from "./settings.js";
import { formatTime } from "./time.js";

/** Longest line of pino in characters; a longer one is cut, and sent as text. */
const LINE_CHARACTERS_MAX = 16 << 20;

/** Options of the transport: settings of its client, and the names that pino's own options change. */
export interface PinoOptions extends ClientSettings {
  /** A function cannot be passed to a worker thread, so only a stream in the program's own thread can have one. */
  onError?: FailureHandler | undefined;
  /** By default `msg`. */
  messageKey?: string | undefined;
  /** By default `err`. */
  errorKey?: string | undefined;
  /** By default `time`. */
  timestampKey?: string | undefined;
  /** By default `level`. */
  levelKey?: string | undefined;
  /** Levels of records for labels that `formatters.level` writes and that are no levels of pino. */
  levels?: Readonly<Record<string, Level>> | undefined;
}

/** How the lines of a logger are read. */
interface Mapping {
  messageKey: string;
  errorKey: string;
  timestampKey: string;
  levelKey: string;
  levels: Readonly<Record<string, Level>>;
}

const DEFAULT_MAPPING: Readonly<Mapping> = {
  messageKey: "msg",
  errorKey: "err",
  timestampKey: "time",
  levelKey: "level",
  levels: {},
};
/** Names that pino adds to the options of a transport in a worker thread: `$context`, `pinoWillSendConfig`. */
const PINO_OWN = /^(?:\$|pino)/;

/** A stream that takes the lines of pino. */
export interface PinoStream extends Writable {
  /** Sends what is buffered. Calls back when that is done, or has failed for 30 s. */
  flush(done?: (error?: Error) => void): void;
  /** Counters of the client. */
  stats(): Stats;
}

/**
 * Makes the stream: for `pino.transport({ target: "bucksaw/pino", options })`, or for `pino(options, stream)` and
 * `pino.multistream`. Ending the stream sends what is buffered within the close time; then it emits `close`.
 */
export default function transport(options: PinoOptions = {}): PinoStream {
  const { messageKey, errorKey, timestampKey, levelKey, levels, ...rest } = options;
  const mapping = { ...DEFAULT_MAPPING };
  for (const [name, value] of Object.entries({ messageKey, errorKey, timestampKey, levelKey, levels })) {
    if (value !== undefined) Object.assign(mapping, { [name]: value });
  }
  // The client refuses what is neither its own nor pino's.
  const settings: ClientSettings = Object.fromEntries(Object.entries(rest).filter(([name]) => !PINO_OWN.test(name)));
  return new Lines(new Client(settings), settings, mapping);
}

class Lines extends Writable implements PinoStream {
  readonly #client: Client;
  readonly #waits: boolean;
  readonly #waitingMax: number;
  readonly #mapping: Mapping;
  readonly #decoder = new StringDecoder("utf8");
  /** The beginning of a line whose end has not been written yet. */
  #rest = "";

  constructor(client: Client, settings: ClientSettings, mapping: Mapping) {
    super({ decodeStrings: false, defaultEncoding: "utf8" });
    this.#client = client;
    this.#waits = settings.whenFull === "block";
    this.#waitingMax = settings.bufferBytes ?? BUFFER_BYTES;
    this.#mapping = mapping;
  }

  flush(done?: (error?: Error) => void): void {
    this.#client.flush().then((sufficed) => done?.(sufficed ? undefined : new Error("records are not acknowledged")));
  }

  stats(): Stats {
    return this.#client.stats();
  }

  override _write(chunk: string | Uint8Array, _encoding: BufferEncoding, done: () => void): void {
    const text = this.#rest + (typeof chunk === "string" ? chunk : this.#decoder.write(Buffer.from(chunk)));
    const lines = text.split("\n");
    this.#rest = lines.pop() ?? "";
    if (this.#rest.length > LINE_CHARACTERS_MAX) {
      lines.push(this.#rest.slice(0, LINE_CHARACTERS_MAX));
      this.#rest = "";
    }
    if (!this.#waits) {
      for (const line of lines) if (line !== "") this.#client.log(recordOf(line, this.#mapping));
      done();
      return;
    }
    void this.#logAll(lines).then(() => done());
  }

  override _final(done: () => void): void {
    if (this.#rest !== "") this.#client.log(recordOf(this.#rest, this.#mapping));
    this.#client.close().then(() => done());
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#client.close().then(() => done(error));
  }

  /** Waits for room line by line. The thread of pino waits too, if it has another one. */
  async #logAll(lines: readonly string[]): Promise<void> {
    for (const line of lines) {
      if (line === "") continue;
      const record = recordOf(line, this.#mapping);
      // In the thread of pino, lines pile up here while one waits.
      if (this.writableLength > this.#waitingMax) this.#client.log(record);
      else await this.#client.logAsync(record);
    }
  }
}

/** The record of a line of pino. A line that is no JSON object becomes the message. */
export function recordOf(line: string, mapping: Mapping = DEFAULT_MAPPING): LogRecord {
  let object: Record<string, unknown>;
  try {
    const parsed: unknown = JSON.parse(line);
    if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) return { message: line };
    object = parsed as Record<string, unknown>;
  } catch {
    return { message: line };
  }

  const { messageKey, errorKey, timestampKey, levelKey, levels } = mapping;
  const { [messageKey]: message, [errorKey]: error, [timestampKey]: time, [levelKey]: level, name, ...rest } = object;
  const record: LogRecord = { message: "" };
  // Without a prototype, any name is an ordinary member.
  const attributes: Record<string, unknown> = Object.create(null);

  record.level = typeof level === "string" && Object.hasOwn(levels, level) ? levels[level] : levelOf(level);
  record.time = timeOf(time);
  if (record.time === undefined && time !== undefined) attributes.time = time;
  if (typeof name === "string") record.logger = name;
  else if (name !== undefined) attributes.name = name;
  addError(attributes, errorKey, error);
  if (typeof message === "string") record.message = message;
  else if (message !== undefined) attributes.message = message;
  // A record of an error alone says at least what the error says.
  else if (typeof attributes["exception.message"] === "string") record.message = attributes["exception.message"];
  record.attributes = Object.assign(attributes, rest);
  return record;
}

/** The level of a number, by the ranges of pino's levels, or of a name. */
export function levelOf(level: unknown): Level | undefined {
  if (isLevel(level)) return level;
  if (typeof level !== "number" || Number.isNaN(level)) return undefined;
  if (level < 20) return "trace";
  if (level < 30) return "debug";
  if (level < 40) return "info";
  if (level < 50) return "warn";
  return level < 60 ? "error" : "fatal";
}

/** The time of a number of seconds, milliseconds, microseconds or nanoseconds by its size, or of RFC 3339 text. */
function timeOf(time: unknown): number | string | undefined {
  if (typeof time === "string") {
    if (formatTime(time) !== undefined) return time;
    return /^\d{10,19}$/.test(time) ? timeOf(Number(time)) : undefined;
  }
  if (typeof time !== "number") return undefined;
  let ms = time;
  if (time < 1e11) ms = time * 1e3;
  else if (time >= 1e17) ms = time / 1e6;
  else if (time >= 1e14) ms = time / 1e3;
  return formatTime(ms) === undefined ? undefined : ms;
}

/** Adds the error that pino has serialised. Its further members keep their names below that of the error. */
function addError(attributes: Record<string, unknown>, key: string, error: unknown): void {
  if (error === undefined) return;
  if (typeof error !== "object" || error === null || !("stack" in error || "message" in error)) {
    attributes[key] = error;
    return;
  }
  const { type, name, message, stack, ...rest } = error as Record<string, unknown>;
  attributes["exception.type"] = type ?? name;
  attributes["exception.message"] = message;
  attributes["exception.stacktrace"] = stack;
  if (Object.keys(rest).length > 0) attributes[key] = rest;
}
