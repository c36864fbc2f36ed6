import { plural } from "./numbers.ts";
import { offsetName, wallClock } from "./zones.ts";

/**
 * Formats times. The node returns RFC 3339 in UTC with microseconds; digits below a second are copied from that text, so that
 * none is lost in a number.
 */

/** Unix milliseconds of an RFC 3339 time, for positions on the screen and not for comparing records. */
export function unixMs(time: string): number {
  return Date.parse(time);
}

interface Parts {
  date: string;
  clock: string;
  /** With the point, and without trailing zeros below a millisecond. */
  fraction: string;
}

/** The parts of a time in a zone. */
export function parts(time: string, zone: string): Parts {
  const digits = /\.(\d+)/.exec(time)?.[1] ?? "";
  const fraction = `.${digits.slice(0, 3).padEnd(3, "0")}${digits.slice(3).replace(/0+$/, "")}`;
  const ms = unixMs(time);
  const wall = zone === "UTC" || Number.isNaN(ms) ? time : wallClock(ms, zone).toISOString();
  return { date: wall.slice(0, 10), clock: wall.slice(11, 19), fraction };
}

/** `23:10:00.123` */
export function clock(time: string, zone: string): string {
  const { clock, fraction } = parts(time, zone);
  return `${clock}${fraction.slice(0, 4)}`;
}

/** `2026-11-20 23:10:00.123456` and the zone. */
export function full(time: string, zone: string): string {
  const { date, clock, fraction } = parts(time, zone);
  return `${date} ${clock}${fraction} ${offsetName(unixMs(time), zone)}`;
}

/** `2026-11-20 23:10:00`, or shorter if equivalent. */
export function short(time: string, zone: string, todayMs: number): string {
  const at = unixMs(time);
  if (Number.isNaN(at)) return time;
  const { date, clock, fraction } = parts(new Date(at).toISOString(), zone);
  const seconds = fraction === ".000" ? (clock.endsWith(":00") ? clock.slice(0, 5) : clock) : clock + fraction;
  const today = parts(new Date(todayMs).toISOString(), zone).date;
  return date === today ? seconds : `${date} ${seconds}`;
}

/** The label of an axis tick: as precise as the distance of ticks, with the date at midnight. */
export function tick(ms: number, places: readonly number[], zone: string): string {
  const apart = (places[1] ?? ms) - (places[0] ?? ms);
  const { date, clock, fraction } = parts(new Date(ms).toISOString(), zone);
  if (apart >= 86_400_000 || clock === "00:00:00") return date.slice(5);
  if (apart > 0 && apart < 1_000) return `${clock.slice(3)}${fraction}`;
  return apart > 0 && apart < 60_000 ? clock : clock.slice(0, 5);
}

/** `3 d 4 h`, `5 min`, `12 s`. */
export function duration(seconds: number): string {
  const whole = Math.round(seconds);
  if (seconds < 1 && seconds > 0) return `${Math.max(1, Math.round(seconds * 1_000))} ms`;
  if (whole < 60) return `${seconds < 10 ? Math.round(seconds * 10) / 10 : whole} s`;
  if (whole < 3_600) return `${Math.floor(whole / 60)} min`;
  if (whole < 86_400) return `${Math.floor(whole / 3_600)} h ${Math.floor((whole % 3_600) / 60)} min`;
  return `${Math.floor(whole / 86_400)} d ${Math.floor((whole % 86_400) / 3_600)} h`;
}

/** `40 minutes`, `5 hours`, `41 days`: a time that is estimated, rounded down. */
export function about(seconds: number): string {
  if (seconds < 60) return "less than a minute";
  if (seconds < 2 * 3_600) return plural(Math.floor(seconds / 60), "minute");
  if (seconds < 2 * 86_400) return plural(Math.floor(seconds / 3_600), "hour");
  const days = Math.floor(seconds / 86_400);
  return days < 2 * 365 ? plural(days, "day") : "over two years";
}
