/** The text of a record on one line of the list: the message of JSON first, and the match in view. */
import type { Highlighter } from "./highlight.ts";

export interface RowText {
  /** The message of JSON, or the text as received. */
  message: string;
  /** The other fields of JSON. */
  rest: string;
  /** Whether text before the shown part is left out. */
  cutBefore: boolean;
}

/** Characters of a JSON record that is parsed for its message. */
const JSON_MAX = 20_000;

/** Keys of a message, most telling first. */
const MESSAGES = ["msg", "message", "@message", "log", "text", "event.message", "MESSAGE", "body", "event"];

/** Keys of what the row shows already: its time and level. */
const SHOWN = /^(@?time(stamp)?|ts|level|severity|lvl|loglevel|log_level|levelname)$/i;

/** Characters before a match that stay in view, and of the message that stays before another part. */
const BEFORE = 30;

/** The name of the key with the message among those of a record. */
export function messageKey(names: Iterable<string>): string | undefined {
  const known = new Set(names);
  return MESSAGES.find((name) => known.has(name));
}

/** The message of a JSON record and its other fields; `undefined` if it is no JSON or has no message. */
export function messageFirst(text: string): { message: string; rest: string } | undefined {
  if (text.length > JSON_MAX || !/^\s*\{/.test(text)) return undefined;
  let parsed: Record<string, unknown>;
  try {
    parsed = JSON.parse(text) as Record<string, unknown>;
  } catch {
    return undefined;
  }
  const key = messageKey(Object.keys(parsed).filter((name) => typeof parsed[name] === "string"));
  const message = key === undefined ? "" : String(parsed[key]);
  if (message.trim() === "") return undefined;
  const others = Object.entries(parsed).filter(
    ([name, value]) => name !== key && (typeof value === "object" || !SHOWN.test(name)),
  );
  const rest = others.map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`);
  return { message, rest: rest.join(" ") };
}

/** The parts of a line with room for some characters. A match beyond them is moved into view. */
export function rowText(text: string, find: Highlighter, room: number): RowText {
  const summary = messageFirst(text);
  const inSummary = summary === undefined ? [] : find(`${summary.message}\n${summary.rest}`);
  if (summary === undefined || inSummary.length === 0) {
    const [hit] = find(text);
    // A match across keys and punctuation is in the text as received only.
    if (summary === undefined || hit !== undefined) {
      const start = startFor(text, hit?.[0], hit?.[1], room);
      return { message: start === 0 ? text : text.slice(start), rest: "", cutBefore: start > 0 };
    }
  }
  const { message, rest } = summary;
  const [begin = -1, end = -1] = inSummary[0] ?? [];
  if (begin <= message.length) {
    const start = startFor(message, begin < 0 ? undefined : begin, end, room);
    return { message: message.slice(start), rest, cutBefore: start > 0 };
  }
  if (end + 1 <= room) return { message, rest, cutBefore: false };
  const from = Math.max(0, begin - message.length - 1 - BEFORE);
  const short = message.length > BEFORE ? `${message.slice(0, BEFORE)}…` : message;
  return { message: short, rest: `${from > 0 ? "… " : ""}${rest.slice(from)}`, cutBefore: false };
}

/** Where the shown text starts, so that a match is in view. */
function startFor(text: string, begin: number | undefined, end = 0, room: number): number {
  if (begin === undefined || end <= room) return 0;
  const start = Math.max(0, begin - BEFORE);
  // Neither half an escape sequence nor half a character.
  const sequence = /\x1b\[?[0-?]*$/.exec(text.slice(Math.max(0, start - 30), start));
  if (sequence !== null) return start - sequence[0].length;
  return /[\udc00-\udfff]/.test(text.charAt(start)) ? start - 1 : start;
}
