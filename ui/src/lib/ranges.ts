/**
 * Time ranges in the syntax of the node: RFC 3339, Unix seconds, or an age such as `15m`. By default `from` is an hour ago and
 * `to` is now.
 */
export interface Range {
  from: string;
  /** Empty for now, including later records. */
  to: string;
}

export const QUICK: readonly { from: string; name: string }[] = [
  { from: "5m", name: "Last 5 minutes" },
  { from: "15m", name: "Last 15 minutes" },
  { from: "1h", name: "Last hour" },
  { from: "3h", name: "Last 3 hours" },
  { from: "12h", name: "Last 12 hours" },
  { from: "1d", name: "Last day" },
  { from: "3d", name: "Last 3 days" },
  { from: "7d", name: "Last 7 days" },
  { from: "30d", name: "Last 30 days" },
];

export const DEFAULT_RANGE: Range = { from: "1h", to: "" };

const UNITS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** The milliseconds of a duration such as `1h30m`; `undefined` if it is invalid. */
export function durationMs(text: string): number | undefined {
  if (!/^(\d+(ms|[smhdw]))+$/.test(text)) return undefined;
  let sum = 0;
  for (const [, count, unit] of text.matchAll(/(\d+)(ms|[smhdw])/g)) sum += Number(count) * (UNITS[unit ?? ""] ?? 0);
  return sum;
}

/** A typed time in Unix milliseconds; `undefined` if it is invalid. */
export function momentMs(text: string, nowMs: number): number | undefined {
  const typed = text.trim();
  if (typed === "" || typed === "now") return nowMs;
  const ago = durationMs(typed);
  if (ago !== undefined) return nowMs - ago;
  if (/^\d{9,10}(\.\d+)?$/.test(typed)) return Number(typed) * 1_000;
  if (/^\d{12,13}$/.test(typed)) return Number(typed);
  if (!/^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})?)?$/.test(typed)) return undefined;
  const at = Date.parse(typed.replace(" ", "T"));
  return Number.isNaN(at) ? undefined : at;
}

/** A typed time in the syntax of the node. A time without a zone is local, or UTC if the page shows UTC. */
export function normalizeMoment(text: string, utc: boolean, nowMs: number): string | undefined {
  const typed = text.trim();
  if (typed === "" || typed === "now") return "";
  if (durationMs(typed) !== undefined || /^\d+(\.\d+)?$/.test(typed)) {
    return momentMs(typed, nowMs) === undefined ? undefined : typed;
  }
  const zoned = /(Z|[+-]\d{2}:\d{2})$/.test(typed);
  const full = /^\d{4}-\d{2}-\d{2}$/.test(typed) ? `${typed}T00:00:00` : typed.replace(" ", "T");
  const at = momentMs(zoned ? typed : `${full}${utc ? "Z" : ""}`, nowMs);
  if (at === undefined) return undefined;
  // Keep a complete typed time: milliseconds would lose digits.
  return zoned ? typed.replace(" ", "T") : new Date(at).toISOString();
}

/** The label of a range on its button. */
export function rangeName(range: Range, show: (iso: string) => string): string {
  const quick = range.to === "" ? QUICK.find(({ from }) => from === range.from) : undefined;
  if (quick !== undefined) return quick.name;
  const side = (text: string) => {
    if (text === "") return "now";
    return durationMs(text) === undefined ? show(text) : `${text} ago`;
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
