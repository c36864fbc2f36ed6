// The transport of winston.

import { inspect, types } from "node:util";
import Transport from "winston-transport";
import { Client } from "./client.js";
import { describeError, isError, type Level, type LogRecord, reasonOf } from "./record.js";
import type { Stats } from "./sender.js";
import { type ClientSettings, isSettingName } from "./settings.js";
import { formatTime } from "./time.js";

/** Options of the transport: those of every transport of winston, and settings of its client. */
export interface WinstonOptions extends Transport.TransportStreamOptions, ClientSettings {
  /** A client to use instead of an own one. The transport does not close it. */
  client?: Client | undefined;
  /** Levels of records for names of levels that winston does not have itself. */
  levels?: Readonly<Record<string, Level>> | undefined;
}

/** Levels of npm, of syslog and of the command line interface of winston. */
const LEVELS: ReadonlyMap<unknown, Level> = new Map<unknown, Level>([
  ["emerg", "fatal"],
  ["alert", "fatal"],
  ["crit", "fatal"],
  ["fatal", "fatal"],
  ["error", "error"],
  ["warn", "warn"],
  ["warning", "warn"],
  ["notice", "info"],
  ["help", "info"],
  ["data", "info"],
  ["info", "info"],
  ["http", "info"],
  ["prompt", "info"],
  ["verbose", "debug"],
  ["debug", "debug"],
  ["input", "debug"],
  ["silly", "trace"],
  ["trace", "trace"],
]);

// The keys of triple-beam, the package by which the parts of winston share them. The level behind the key is the one
// without colours.
const LEVEL = Symbol.for("level");
const SPLAT = Symbol.for("splat");
/** Names of a stack trace and its error, from `format.errors`, and from exceptions that winston handles. */
const ERROR_KEYS = ["error", "err"] as const;
/** The first line of a stack trace: `TypeError: message` or `Error [CODE]: message`. */
const STACK_HEAD = /^([A-Za-z_$][\w$.]*)(?: \[[^\]]*\])?(?:: |\n|$)/;

/** What winston gives to a transport: an object with a level and a message, or an error with these. */
export type Info = Record<string | symbol, unknown>;

/** Sends the records of a logger. Ending the logger sends what is buffered within the close time. */
export default class BucksawTransport extends Transport {
  readonly #client: Client;
  readonly #ownsClient: boolean;
  readonly #levels: ReadonlyMap<unknown, Level>;

  constructor(options: WinstonOptions = {}) {
    const { client, levels, format, level, silent, handleExceptions, handleRejections, ...rest } = options;
    const own = { format, level, silent, handleExceptions, handleRejections };
    super(Object.fromEntries(Object.entries(own).filter(([, value]) => value !== undefined)));
    const settings = rest as ClientSettings;
    if (client !== undefined && Object.keys(settings).some(isSettingName)) {
      throw new TypeError("client: expected no other settings beside a client");
    }
    this.#client = client ?? new Client(settings);
    this.#ownsClient = client === undefined;
    this.#levels = levels === undefined ? LEVELS : new Map([...LEVELS, ...Object.entries(levels)]);
  }

  /**
   * Called by winston for each record. With `whenFull: "block"` a record waits for room in the client, not here: a
   * logger of winston that has to wait for a transport loses records at its end.
   */
  override log(info: Info, done: () => void): void {
    void this.#client.logAsync(recordOf(info, this.#levels));
    done();
  }

  /** Sends what is buffered. Returns whether `timeMs` sufficed. */
  flush(timeMs?: number): Promise<boolean> {
    return this.#client.flush(timeMs);
  }

  /** Counters of the client. */
  stats(): Stats {
    return this.#client.stats();
  }

  /** Called by winston when the transport is removed from its logger. */
  override close(): void {
    void this.#finish();
  }

  /** Called when the logger has ended, which waits for it. */
  override _final(done: () => void): void {
    void this.#finish().then(() => done());
  }

  #finish(): Promise<boolean> {
    return this.#ownsClient ? this.#client.close() : this.#client.flush();
  }
}

export { BucksawTransport };

/** The record of an object of winston. Never throws. */
export function recordOf(info: Info, levels: ReadonlyMap<unknown, Level> = LEVELS): LogRecord {
  const record: LogRecord = { message: "" };
  // Without a prototype, any name is an ordinary member.
  const attributes: Record<string, unknown> = Object.create(null);
  try {
    const level = info[LEVEL] ?? info.level;
    record.level = levels.get(level);
    for (const name of Object.keys(info)) {
      if (name !== "level" && name !== "message" && name !== "stack") attributes[name] = info[name];
    }
    const { error, key } = errorOf(info);
    record.message = textOf(info.message, error);
    addError(attributes, key, error, info);
    if (formatTime(attributes.timestamp) !== undefined) {
      record.time = attributes.timestamp as string;
      delete attributes.timestamp;
    }
    record.attributes = attributes;
  } catch (thrown) {
    record.message = `!ERROR: ${reasonOf(thrown)}`;
    record.attributes = attributes;
  }
  return record;
}

function textOf(message: unknown, error: unknown): string {
  if (typeof message === "string") return message;
  if (isError(message)) return message.message;
  if (message === undefined || message === null) return isError(error) ? error.message : "";
  return typeof message === "object" ? inspect(message) : String(message);
}

/** The error of a record: itself, its message, what was logged behind the message, or its member `error` or `err`. */
function errorOf(info: Info): { error: unknown; key: string | undefined } {
  if (types.isNativeError(info) || info instanceof Error) return { error: info, key: undefined };
  if (isError(info.message)) return { error: info.message, key: undefined };
  for (const key of ERROR_KEYS) if (isError(info[key])) return { error: info[key], key };
  const splat = info[SPLAT];
  const logged: unknown = Array.isArray(splat) ? splat.find(isError) : undefined;
  return { error: logged, key: undefined };
}

function addError(attributes: Record<string, unknown>, key: string | undefined, error: unknown, info: Info): void {
  if (error !== undefined) {
    const { type, message, stack, rest } = describeError(error);
    attributes["exception.type"] = type;
    attributes["exception.message"] = message;
    attributes["exception.stacktrace"] = stack;
    // winston copies the cause, which the stack trace has.
    if (isError(error) && attributes.cause === error.cause) delete attributes.cause;
    // The members of other errors are members of the record already.
    if (key !== undefined) attributes[key] = rest;
    return;
  }
  if (typeof info.stack !== "string") return;
  // The error itself is gone after `format.errors`.
  attributes["exception.type"] = STACK_HEAD.exec(info.stack)?.[1];
  attributes["exception.message"] = typeof info.message === "string" ? info.message : undefined;
  attributes["exception.stacktrace"] = info.stack;
}
