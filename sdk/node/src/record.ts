// Records and their encoded lines. Encoding never throws: a value without a JSON form becomes text.

import { types } from "node:util";
import { formatTime, nowMs, type Time } from "./time.js";

/** How serious a record is. */
export type Level = "trace" | "debug" | "info" | "warn" | "error" | "fatal";

/** A record to send. */
export interface LogRecord {
  /** The line of the record, byte for byte, but without line ends at its end. */
  message: string;
  /** Left out if it is not one of the six levels. */
  level?: Level | undefined;
  /** The time of the event; by default now. An invalid time counts as now. */
  time?: Time | undefined;
  /** Name of the logger, sent as `logger.name`. */
  logger?: string | undefined;
  /** An exception, sent as `exception.type`, `exception.message` and `exception.stacktrace` with its causes. */
  error?: unknown;
  /** Named values: at most 250, with names of at most 255 bytes. `undefined` is left out. */
  attributes?: Readonly<Record<string, unknown>> | undefined;
}

/** Longest encoded line in bytes, without its line end. */
export const LINE_BYTES_MAX = 1 << 20;
/** Most attributes at the top level. */
const ATTRIBUTES_MAX = 250;
/** Longest name of an attribute in bytes of UTF-8. */
const NAME_BYTES_MAX = 255;
/** Deepest nesting of a value. */
const DEPTH_MAX = 32;
/** Nodes make an attribute of each member of an object, down to this depth. Deeper objects stay JSON text. */
const DIVIDED_DEPTH = 8;
/** Most causes of an exception that its stack trace lists. */
const CAUSES_MAX = 8;
/** Integers in this range stay JSON numbers; others become text. */
const INTEGER_MIN = -(2n ** 63n);
const INTEGER_MAX = 2n ** 64n - 1n;

const LEVELS: ReadonlySet<unknown> = new Set(["trace", "debug", "info", "warn", "error", "fatal"]);

/** Thrown inside an encoder whose output no longer fits into a line; it does not leave this module. */
const TOO_LARGE = Symbol("too large");

/** The name is a level of records. */
export function isLevel(name: unknown): name is Level {
  return LEVELS.has(name);
}

/** The reason of a thrown value, as text. */
export function reasonOf(thrown: unknown): string {
  try {
    return String(isError(thrown) ? thrown.message : thrown);
  } catch {
    return "unknown";
  }
}

/** The encoded line of a record without its line end, or undefined if its attributes alone are too long for one. */
export function encodeRecord(record: LogRecord): string | undefined {
  try {
    return new Encoder().record(record);
  } catch (thrown) {
    if (thrown === TOO_LARGE) return undefined;
    // Only a record that is no ordinary object gets here, such as a proxy whose traps throw.
    return new Encoder().record({ message: `!ERROR: ${reasonOf(thrown)}` });
  }
}

/** JSON text of a string. A surrogate without its other half becomes U+FFFD, because UTF-8 has no form for it. */
function quote(text: string): string {
  return JSON.stringify(text.isWellFormed() ? text : text.toWellFormed());
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

/** An attribute whose value is an object. */
interface NestedObject {
  name: string;
  text: string;
  /** Where its text begins in those of all attributes. */
  start: number;
  /** Number of attributes that the node makes of it. */
  leaves: number;
}

class Encoder {
  /** Characters that may still be written; a line has at least as many bytes. */
  #left = LINE_BYTES_MAX;
  /** The objects around the value that is being encoded. */
  readonly #around: object[] = [];
  #attributes = "";
  #count = 0;
  /** An upper bound of the attributes that nodes make of nested objects besides. */
  #countNested = 0;
  readonly #nested: NestedObject[] = [];
  #dropped = 0;
  #level: Level | undefined;

  record(record: LogRecord): string {
    const { time, level, logger, error, attributes } = record;
    const head = `{"time":"${formatTime(time) ?? formatTime(nowMs())}","message":`;
    this.#level = isLevel(level) ? level : undefined;
    if (this.#level !== undefined) this.#attributes = `,"level":"${this.#level}"`;

    if (logger !== undefined && logger !== null) this.#attribute("logger.name", String(logger));
    if (error !== undefined && error !== null) this.#exception(error);
    if (isObject(attributes)) {
      for (const name of Object.keys(attributes)) this.#member(attributes, name);
    } else if (attributes !== undefined && attributes !== null) {
      this.#attribute("attributes", attributes);
    }
    if (this.#count + this.#countNested > ATTRIBUTES_MAX) this.#limitNested();
    if (this.#dropped > 0) this.#attributes += `,"bucksaw.dropped_attributes":${this.#dropped}`;

    const message = messageText(record);
    // A character has at most three bytes per unit of UTF-16, and six if it is escaped.
    if (message.length <= LINE_BYTES_MAX) {
      const line = `${head}${quote(message)}${this.#attributes}}`;
      if (line.length * 3 <= LINE_BYTES_MAX || Buffer.byteLength(line) <= LINE_BYTES_MAX) return line;
    }
    return truncate(head, message, this.#attributes);
  }

  /** Adds the attribute of a member whose getter may throw. */
  #member(attributes: object, name: string): void {
    let value: unknown;
    try {
      value = Reflect.get(attributes, name);
    } catch (thrown) {
      value = `!ERROR: ${reasonOf(thrown)}`;
    }
    this.#attribute(name, value);
  }

  #attribute(name: string, value: unknown): void {
    if (value === undefined) return;
    let sent = name;
    if (name === "") sent = "_";
    else if (name === "time" || name === "message" || (name === "level" && this.#level !== undefined)) sent += "_";
    if (this.#count === ATTRIBUTES_MAX || (name.length > NAME_BYTES_MAX / 3 && nameBytes(name) > NAME_BYTES_MAX)) {
      this.#dropped += 1;
      return;
    }
    const text = this.#value(value);
    if (text === undefined) return;
    this.#count += 1;
    this.#attributes += `,${quote(sent)}:`;
    this.#attributes += text.startsWith("{") ? this.#nestedText(sent, text) : text;
    this.#spend(sent.length + 4);
  }

  /** The text of an object, as a string if the node would refuse one of its names. */
  #nestedText(name: string, text: string): string {
    // A character has at most three bytes, and each name at least three more characters than its dot.
    const isLong = 3 * (name.length + text.length) > NAME_BYTES_MAX;
    if (isLong && leavesOf(JSON.parse(text), nameBytes(name)) === undefined) return quote(text);
    // A member has at least five characters: `"":1,`.
    this.#countNested += Math.floor(text.length / 5);
    this.#nested.push({ name, text, start: this.#attributes.length, leaves: 0 });
    return text;
  }

  /** Makes strings of the objects with most members, until the node accepts the record. */
  #limitNested(): void {
    let total = this.#count;
    for (const object of this.#nested) {
      object.leaves = leavesOf(JSON.parse(object.text), nameBytes(object.name)) ?? 1;
      total += object.leaves - 1;
    }
    const chosen: NestedObject[] = [];
    for (const object of [...this.#nested].sort((a, b) => b.leaves - a.leaves)) {
      if (total <= ATTRIBUTES_MAX) break;
      total -= object.leaves - 1;
      chosen.push(object);
    }
    // From the last one on, so that the others stay where they are.
    for (const { start, text } of chosen.sort((a, b) => b.start - a.start)) {
      const [before, behind] = [this.#attributes.slice(0, start), this.#attributes.slice(start + text.length)];
      this.#attributes = before + quote(text) + behind;
    }
  }

  #exception(error: unknown): void {
    const { type, message, stack, rest } = describeError(error);
    this.#attribute("exception.type", type);
    this.#attribute("exception.message", message);
    this.#attribute("exception.stacktrace", stack);
    if (rest !== undefined) this.#attribute("error", rest);
  }

  #spend(characters: number): void {
    this.#left -= characters;
    if (this.#left < 0) throw TOO_LARGE;
  }

  /** JSON text of a value; undefined for one that is left out. */
  #value(value: unknown): string | undefined {
    switch (typeof value) {
      case "string":
        return this.#text(value);
      case "number":
        this.#spend(1);
        return Number.isFinite(value) ? String(value) : `"${value}"`;
      case "boolean":
        return value ? "true" : "false";
      case "undefined":
        return undefined;
      case "bigint":
        return value >= INTEGER_MIN && value <= INTEGER_MAX ? String(value) : this.#bigText(value);
      case "symbol":
        return this.#text(String(value));
      case "function":
        return this.#guarded(() => this.#text(`[function ${String(value.name)}]`));
      default:
        return isObject(value) ? this.#guarded(() => this.#object(value)) : "null";
    }
  }

  #text(text: string): string {
    this.#spend(text.length);
    return quote(text);
  }

  #bigText(value: bigint): string {
    return this.#text(String(value));
  }

  /** What `encode` returns, or the reason of its failure. */
  #guarded(encode: () => string | undefined): string | undefined {
    const depth = this.#around.length;
    try {
      return encode();
    } catch (thrown) {
      if (thrown === TOO_LARGE) throw thrown;
      this.#around.length = depth;
      return this.#text(`!ERROR: ${reasonOf(thrown)}`);
    }
  }

  #object(value: object): string | undefined {
    if (this.#around.includes(value)) return this.#text("!ERROR: circular reference");
    if (this.#around.length >= DEPTH_MAX) return this.#text(`!ERROR: nested deeper than ${DEPTH_MAX} levels`);
    this.#around.push(value);
    const text = this.#content(value);
    this.#around.pop();
    return text;
  }

  #content(value: object): string | undefined {
    if (Array.isArray(value)) return this.#list(value);
    if (types.isDate(value)) {
      return this.#text(Number.isNaN(value.getTime()) ? "Invalid Date" : value.toISOString());
    }
    if (types.isUint8Array(value)) return this.#bytes(value);
    if (types.isAnyArrayBuffer(value)) return this.#bytes(new Uint8Array(value));
    if (types.isTypedArray(value)) return this.#list(value as Iterable<unknown>);
    if (types.isMap(value)) return this.#entries(value);
    if (types.isSet(value)) return this.#list(value);
    if (types.isBoxedPrimitive(value)) return this.#value(value.valueOf());
    if (isError(value)) {
      const { type, message, stack, rest } = describeError(value);
      return this.#entries(Object.entries({ type, message, stack, ...rest }));
    }
    if ("toJSON" in value && typeof value.toJSON === "function") return this.#value(value.toJSON());

    const names = Object.keys(value);
    if (names.length === 0) {
      const prototype = Object.getPrototypeOf(value);
      // The members of such an object say nothing: a RegExp, a Promise, a URLSearchParams.
      if (prototype !== null && prototype !== Object.prototype) return this.#text(String(value));
    }
    let text = "";
    for (const name of names) text += this.#entry(text === "", name, this.#memberText(value, name));
    return `{${text}}`;
  }

  #memberText(value: object, name: string): string | undefined {
    return this.#guarded(() => this.#value(Reflect.get(value, name)));
  }

  #entry(first: boolean, name: string, text: string | undefined): string {
    if (text === undefined) return "";
    this.#spend(name.length + 4);
    return `${first ? "" : ","}${quote(name)}:${text}`;
  }

  #entries(entries: Iterable<[unknown, unknown]>): string {
    let text = "";
    for (const [name, value] of entries) text += this.#entry(text === "", String(name), this.#value(value));
    return `{${text}}`;
  }

  #list(values: Iterable<unknown>): string {
    let text = "";
    for (const value of values) {
      this.#spend(1);
      text += `${text === "" ? "" : ","}${this.#value(value) ?? "null"}`;
    }
    return `[${text}]`;
  }

  /** Bytes as UTF-8, with U+FFFD for those that are not. */
  #bytes(bytes: Uint8Array): string {
    // Text has at least a third as many characters as bytes.
    if (bytes.byteLength / 3 > this.#left) throw TOO_LARGE;
    return this.#text(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8"));
  }
}

/** The number of attributes that the node makes of a JSON value; undefined if the name of one is too long. */
function leavesOf(value: unknown, nameBytesAbove: number, depth = 0): number | undefined {
  if (nameBytesAbove > NAME_BYTES_MAX) return undefined;
  if (!isObject(value) || Array.isArray(value) || depth === DIVIDED_DEPTH) return 1;
  let leaves = 0;
  for (const [name, member] of Object.entries(value)) {
    const inner = leavesOf(member, nameBytesAbove + 1 + nameBytes(name), depth + 1);
    if (inner === undefined) return undefined;
    leaves += inner;
  }
  // An empty object is an attribute.
  return Math.max(leaves, 1);
}

/** Bytes of a name at the node, which puts U+FFFD in place of NUL. */
function nameBytes(name: string): number {
  return Buffer.byteLength(name.includes("\0") ? name.replaceAll("\0", "\ufffd") : name);
}

function messageText(record: LogRecord): string {
  const message: unknown = record.message;
  if (typeof message === "string") return message;
  if (message === undefined || message === null) return "";
  try {
    return String(isError(message) ? message.message : message);
  } catch (thrown) {
    return `!ERROR: ${reasonOf(thrown)}`;
  }
}

/** Shortens the message so that the line has at most `LINE_BYTES_MAX` bytes. */
function truncate(head: string, message: string, attributes: string): string {
  const bytes = Buffer.byteLength(message);
  const rest = `${attributes},"bucksaw.truncated_bytes":`;
  const room = LINE_BYTES_MAX - Buffer.byteLength(head) - Buffer.byteLength(rest) - String(bytes).length - 3;
  if (room < 0) throw TOO_LARGE;
  const kept = longestPrefix(message, room);
  return `${head}${quote(kept)}${rest}${bytes - Buffer.byteLength(kept)}}`;
}

/** The longest prefix of whole characters whose JSON text has at most `room` bytes between the quotes. */
function longestPrefix(message: string, room: number): string {
  // Cut first, so that a message of any length costs no more than one that just fails to fit.
  const text = message.slice(0, room + 1).toWellFormed();
  let used = 0;
  let end = 0;
  while (end < text.length) {
    const point = text.codePointAt(end) ?? 0;
    used += jsonBytes(point);
    if (used > room) break;
    end += point > 0xffff ? 2 : 1;
  }
  return text.slice(0, end);
}

/** Bytes of a character in JSON text. */
function jsonBytes(point: number): number {
  if (point < 0x20) return point === 8 || point === 9 || point === 10 || point === 12 || point === 13 ? 2 : 6;
  if (point < 0x80) return point === 0x22 || point === 0x5c ? 2 : 1;
  if (point < 0x800) return 2;
  return point < 0x10000 ? 3 : 4;
}

interface ErrorParts {
  type: string | undefined;
  message: string | undefined;
  stack: string | undefined;
  /** Other members of the error, such as `code`; undefined if there are none. */
  rest: Record<string, unknown> | undefined;
}

/** The value is an error, also one of another realm or a copy of one. */
export function isError(value: unknown): value is Error {
  if (!isObject(value)) return false;
  if (value instanceof Error || types.isNativeError(value)) return true;
  try {
    return (
      "stack" in value && "message" in value && typeof value.stack === "string" && typeof value.message === "string"
    );
  } catch {
    return false;
  }
}

/** The parts of a thrown value. An error can have any members, so each is read with care. */
export function describeError(error: unknown): ErrorParts {
  if (!isError(error)) {
    const rest = isObject(error) ? { value: error } : undefined;
    return { type: typeof error, message: rest ? undefined : textOf(() => error), stack: undefined, rest };
  }
  const rest: Record<string, unknown> = Object.create(null);
  let names: string[] = [];
  try {
    names = Object.keys(error).filter((name) => !ERROR_MEMBERS.has(name));
  } catch {
    // A proxy may refuse to list its members.
  }
  for (const name of names) {
    try {
      rest[name] = Reflect.get(error, name);
    } catch (thrown) {
      rest[name] = `!ERROR: ${reasonOf(thrown)}`;
    }
  }
  return {
    type: textOf(() => (error.name === "Error" ? error.constructor.name || "Error" : error.name)),
    message: textOf(() => error.message),
    stack: stackWithCauses(error),
    rest: names.length === 0 ? undefined : rest,
  };
}

/** Members of an error that its attributes or its stack trace have. */
const ERROR_MEMBERS: ReadonlySet<string> = new Set(["name", "message", "stack", "cause", "errors"]);

function textOf(read: () => unknown): string | undefined {
  try {
    const value = read();
    return value === undefined || value === null ? undefined : String(value);
  } catch (thrown) {
    return `!ERROR: ${reasonOf(thrown)}`;
  }
}

/** The stack trace of an error, and behind it those of its causes, and of the errors that it combines. */
function stackWithCauses(error: Error): string | undefined {
  let text = textOf(() => error.stack);
  const listed: unknown[] = [error];
  for (let next = 0; next < listed.length; next += 1) {
    for (const cause of causesOf(listed[next])) {
      if (listed.length > CAUSES_MAX || listed.includes(cause)) continue;
      listed.push(cause);
      text = `${text ?? ""}\nCaused by: ${textOf(() => (isError(cause) ? (cause.stack ?? cause) : cause))}`;
    }
  }
  return text;
}

function causesOf(error: unknown): unknown[] {
  if (!isError(error)) return [];
  try {
    const errors: unknown = Reflect.get(error, "errors");
    const all = [error.cause, ...(Array.isArray(errors) ? errors.slice(0, CAUSES_MAX) : [])];
    return all.filter((cause) => cause !== undefined && cause !== null);
  } catch {
    return [];
  }
}
