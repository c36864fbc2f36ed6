/** Time zones: conversion between moments and the wall clock of a zone. */

/** Found once, because each look-up costs a millisecond or more. */
const LOCAL = new Intl.DateTimeFormat().resolvedOptions().timeZone;

/** The zone of this browser when the page was loaded. */
export function localZone(): string {
  return LOCAL;
}

/** The names of all zones that this browser knows. */
export function zoneNames(): readonly string[] {
  return Intl.supportedValuesOf("timeZone");
}

/** Whether this browser knows a zone. */
export function isZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat("en-GB", { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

const formats = new Map<string, Intl.DateTimeFormat>();
const offsets = new Map<string, number>();

/** Offsets change only at whole quarters of an hour. */
const QUARTER_MS = 900_000;

/** Maximum remembered offsets: some months of quarters of an hour. */
const OFFSETS_MAX = 20_000;

/** How far the clock of a zone is ahead of UTC at a moment. */
export function offsetMs(ms: number, zone: string): number {
  if (zone === "UTC" || !Number.isFinite(ms)) return 0;
  const quarter = Math.floor(ms / QUARTER_MS);
  const key = `${zone} ${quarter}`;
  const known = offsets.get(key);
  if (known !== undefined) return known;
  if (offsets.size >= OFFSETS_MAX) offsets.clear();
  const offset = computed(quarter * QUARTER_MS, zone);
  offsets.set(key, offset);
  return offset;
}

function computed(ms: number, zone: string): number {
  let format = formats.get(zone);
  if (format === undefined) {
    const digits = { year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric" } as const;
    format = new Intl.DateTimeFormat("en-GB", { timeZone: zone, hourCycle: "h23", ...digits, second: "numeric" });
    formats.set(zone, format);
  }
  const found: Record<string, number> = {};
  for (const { type, value } of format.formatToParts(ms)) found[type] = Number(value);
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = found;
  return Date.UTC(year, month - 1, day, hour, minute, second) - ms;
}

/** The wall clock of a zone, as a date whose UTC parts are those of the clock. */
export function wallClock(ms: number, zone: string): Date {
  return new Date(ms + offsetMs(ms, zone));
}

/** The moment at which the clock of a zone shows a time; `wallMs` is that time read as UTC. */
export function momentOf(wallMs: number, zone: string): number {
  const guess = wallMs - offsetMs(wallMs, zone);
  return wallMs - offsetMs(guess, zone);
}

/** `UTC`, `+01:00`. */
export function offsetName(ms: number, zone: string): string {
  const minutes = Math.round(offsetMs(ms, zone) / 60_000);
  if (minutes === 0) return "UTC";
  const size = Math.abs(minutes);
  const two = (number: number) => String(number).padStart(2, "0");
  return `${minutes < 0 ? "-" : "+"}${two(Math.floor(size / 60))}:${two(size % 60)}`;
}
