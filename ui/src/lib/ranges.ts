import { momentOf, wallClock } from "./zones.ts";

/**
 * Time ranges in the syntax of the node: RFC 3339, Unix seconds, an age such as `15m`, a day such as `today`, or a time of today. By default `from` is an hour ago and
 * `to` is now.
 */
export interface Range {
  from: string;
  /** Empty for now, including later records. */
  to: string;
}

export const QUICK: readonly { from: string; to?: string; name: string }[] = [
  { from: "5m", name: "Last 5 minutes" },
  { from: "15m", name: "Last 15 minutes" },
  { from: "1h", name: "Last hour" },
  { from: "3h", name: "Last 3 hours" },
  { from: "12h", name: "Last 12 hours" },
  { from: "today", name: "Today" },
  { from: "yesterday", to: "today", name: "Yesterday" },
  { from: "1d", name: "Last day" },
  { from: "3d", name: "Last 3 days" },
  { from: "7d", name: "Last 7 days" },
  { from: "30d", name: "Last 30 days" },
];

export const DEFAULT_RANGE: Range = { from: "1h", to: "" };

const UNITS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** The milliseconds of a duration such as `1h30m` or `1.5h`; `undefined` if it is invalid. */
export function durationMs(text: string): number | undefined {
  if (!/^(\d+(\.\d+)?(ms|[smhdw]))+$/.test(text)) return undefined;
  let sum = 0;
  for (const [, count, unit] of text.matchAll(/([\d.]+)(ms|[smhdw])/g)) sum += Number(count) * (UNITS[unit ?? ""] ?? 0);
  return sum;
}

/** The duration of `15m`, `15m ago` and `now-15m`. */
function ageOf(typed: string): string | undefined {
  const age = /^now\s*-\s*(\S+)$/.exec(typed)?.[1] ?? /^(\S+)\s+ago$/.exec(typed)?.[1] ?? typed;
  return durationMs(age) === undefined ? undefined : age;
}

/** Whether a time moves with the clock: an age, a day, or a time of today. */
export function isRelative(text: string): boolean {
  const typed = text.trim().toLowerCase();
  return ageOf(typed) !== undefined || /^(today|yesterday|\d{1,2}:\d{2}(:\d{2})?)$/.test(typed);
}

/** Whether the node needs a zone to read a time. */
export function needsZone(text: string): boolean {
  return isRelative(text) && ageOf(text.trim().toLowerCase()) === undefined;
}

/** A typed time in Unix milliseconds; `undefined` if it is invalid. A time without a zone is one of `zone`. */
export function momentMs(text: string, nowMs: number, zone = "UTC"): number | undefined {
  const typed = text.trim();
  const low = typed.toLowerCase();
  if (typed === "" || low === "now") return nowMs;
  const age = ageOf(low);
  if (age !== undefined) return nowMs - (durationMs(age) ?? 0);
  const midnight = Math.floor(wallClock(nowMs, zone).getTime() / 86_400_000) * 86_400_000;
  if (low === "today") return momentOf(midnight, zone);
  if (low === "yesterday") return momentOf(midnight - 86_400_000, zone);
  if (/^\d{1,2}:\d{2}(:\d{2})?$/.test(low)) {
    const [hours = 0, minutes = 0, seconds = 0] = low.split(":").map(Number);
    if (hours > 23 || minutes > 59 || seconds > 59) return undefined;
    return momentOf(midnight + ((hours * 60 + minutes) * 60 + seconds) * 1_000, zone);
  }
  if (/^\d{9,10}(\.\d+)?$/.test(typed)) return Number(typed) * 1_000;
  if (/^\d{12,13}$/.test(typed)) return Number(typed);
  const date = /^(\d{4}-\d{2}-\d{2})([T ](\d{2}:\d{2}(:\d{2}(\.\d+)?)?)(Z|[+-]\d{2}:\d{2})?)?$/.exec(typed);
  if (date === null) return undefined;
  const wall = Date.parse(`${date[1]}T${date[3] ?? "00:00"}${date[6] ?? "Z"}`);
  if (Number.isNaN(wall)) return undefined;
  return date[6] === undefined ? momentOf(wall, zone) : wall;
}

/** A typed time in the syntax of the node. Days and times without a date keep their meaning tomorrow. */
export function normalizeMoment(text: string, zone: string, nowMs: number): string | undefined {
  const typed = text.trim();
  const low = typed.toLowerCase();
  if (typed === "" || low === "now") return "";
  const age = ageOf(low);
  if (age !== undefined) return age;
  const at = momentMs(typed, nowMs, zone);
  if (at === undefined) return undefined;
  if (isRelative(low)) return low;
  if (/^\d+(\.\d+)?$/.test(typed)) return typed;
  // Keep a complete typed time: milliseconds would lose digits.
  return /(Z|[+-]\d{2}:\d{2})$/.test(typed) ? typed.replace(" ", "T") : new Date(at).toISOString();
}

/** The label of a range on its button. */
export function rangeName(range: Range, show: (iso: string) => string): string {
  const quick = QUICK.find(({ from, to = "" }) => from === range.from && to === range.to);
  if (quick !== undefined) return quick.name;
  const side = (text: string) => {
    if (text === "") return "now";
    if (needsZone(text)) return text;
    return isRelative(text) ? `${text} ago` : show(text);
  };
  if (range.to === "" && durationMs(range.from) !== undefined) return `Last ${range.from}`;
  return `${side(range.from)} – ${side(range.to)}`;
}

/** A range of whole milliseconds. */
export function absolute(fromMs: number, toMs: number): Range {
  return { from: new Date(Math.floor(fromMs)).toISOString(), to: new Date(Math.ceil(toMs)).toISOString() };
}

/** The range moved by its own length, or zoomed out three times around its middle. */
export function shifted(fromMs: number, toMs: number, how: "earlier" | "later" | "wider", nowMs: number): Range {
  const span = Math.max(toMs - fromMs, 1);
  if (how === "wider") return absolute(fromMs - span, Math.max(Math.min(toMs + span, nowMs), toMs));
  const by = how === "earlier" ? -span : span;
  return absolute(fromMs + by, toMs + by);
}
