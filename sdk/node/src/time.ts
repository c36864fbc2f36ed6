// Times of records: RFC 3339 in UTC with nine digits of nanoseconds.

/** A time: a date, milliseconds since 1970, nanoseconds since 1970 as a bigint, or an RFC 3339 text. */
export type Time = Date | number | bigint | string;

// The last millisecond of the year 9999, after which RFC 3339 has no texts.
const MS_MAX = 253_402_300_799_999;
const NANOSECONDS_MAX = BigInt(MS_MAX + 1) * 1_000_000n - 1n;
const RFC_3339 = /^(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)$/;

// Most records of a program are of the same second as the one before.
let cachedSecond = Number.NaN;
let cachedText = "";

function secondText(second: number): string {
  if (second !== cachedSecond) {
    cachedText = new Date(second * 1000).toISOString().slice(0, 19);
    cachedSecond = second;
  }
  return cachedText;
}

/** The text of milliseconds since 1970, in microseconds, because a double holds no more. */
function formatMs(ms: number): string {
  const second = Math.floor(ms / 1000);
  const microseconds = Math.min(Math.round((ms - second * 1000) * 1000), 999_999);
  return `${secondText(second)}.${String(microseconds).padStart(6, "0")}000Z`;
}

/** The text of a time, or undefined if it is none or outside of the years 1970 to 9999. */
export function formatTime(time: unknown): string | undefined {
  switch (typeof time) {
    case "number":
      return time >= 0 && time <= MS_MAX ? formatMs(time) : undefined;
    case "bigint":
      if (time < 0n || time > NANOSECONDS_MAX) return undefined;
      return `${secondText(Number(time / 1_000_000_000n))}.${String(time % 1_000_000_000n).padStart(9, "0")}Z`;
    case "string":
      return formatText(time);
    default:
      return time instanceof Date ? formatTime(time.getTime()) : undefined;
  }
}

function formatText(text: string): string | undefined {
  const parts = RFC_3339.exec(text);
  if (parts === null) return undefined;
  const ms = Date.parse(`${parts[1]}T${parts[2]}${parts[4]?.toUpperCase()}`);
  if (!(ms >= 0 && ms <= MS_MAX)) return undefined;
  return `${secondText(ms / 1000)}.${(parts[3] ?? "").slice(0, 9).padEnd(9, "0")}Z`;
}

/** Nanoseconds since 1970 of an RFC 3339 text, or undefined if it is none. */
export function parseNanoseconds(text: string): bigint | undefined {
  const parts = RFC_3339.exec(text);
  if (parts === null) return undefined;
  const ms = Date.parse(`${parts[1]}T${parts[2]}${parts[4]?.toUpperCase()}`);
  if (Number.isNaN(ms)) return undefined;
  return BigInt(ms) * 1_000_000n + BigInt((parts[3] ?? "").slice(0, 9).padEnd(9, "0"));
}

// Milliseconds since 1970 at the origin of the monotonic clock.
let origin = Number.NaN;
let last = 0;

/**
 * Milliseconds since 1970 with microseconds behind the point.
 * The whole milliseconds are always those of the system's clock. The monotonic clock adds only the digits below, so
 * that records of the same millisecond keep their order.
 */
export function nowMs(): number {
  const wall = Date.now();
  const monotonic = performance.now();
  let now = origin + monotonic;
  if (!(now >= wall)) {
    now = wall;
    origin = wall - monotonic;
  } else if (now >= wall + 1) {
    now = wall + 0.999;
    origin = now - monotonic;
  }
  // A sum of doubles can be smaller than the one before by a rounding.
  if (now < last && last < wall + 1) now = last;
  last = now;
  return now;
}
