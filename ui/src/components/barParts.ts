import { LEVELS } from "../lib/level.ts";
import { count, plural } from "../lib/numbers.ts";
import { short } from "../lib/times.ts";
import { LEVEL_FIELD } from "../lib/url.ts";
import type { Bucket } from "../worker/messages.ts";

/** A part of each bar. */
export interface Part {
  /** The value of the group; `undefined` for the records that are in none. */
  group: string | undefined;
  /** What it is called. */
  name: string;
  /** The name of its colour in tokens.css. */
  colour: string;
}

/** Colours of groups other than levels. */
const PALETTE = 10;

/** The parts of bars from the bottom, for levels from the worst on; last what no group counts. */
export function partsOf(by: string, groups: readonly string[], grouped: boolean): Part[] {
  const rest: Part = { group: undefined, name: grouped ? "other" : "not counted yet", colour: "bar-none" };
  if (by === "") return [{ ...rest, name: "all" }];
  if (by !== LEVEL_FIELD) {
    const parts = groups.map((group, at) => ({
      group,
      name: group === "" ? "(empty)" : group,
      colour: `bar-group-${at % PALETTE}`,
    }));
    return [...parts, rest];
  }
  const levels = LEVELS.map((level) => ({ group: level, name: level, colour: `bar-${level}` }));
  return [...levels, { ...rest, name: grouped ? "no level" : "not counted yet" }];
}

/** The records of a part of a bucket. */
export function part(bucket: Bucket, { group }: Part, parts: readonly Part[]): number {
  if (group !== undefined) return bucket.groups?.[group] ?? 0;
  return parts.reduce(
    (left, { group }) => left - (group === undefined ? 0 : (bucket.groups?.[group] ?? 0)),
    bucket.count,
  );
}

/** The description of a bar. */
export function described(bucket: Bucket, parts: readonly Part[], zone: string): string {
  const found = parts
    .filter((one) => one.group !== undefined && part(bucket, one, parts) > 0)
    .map((one) => `, ${count(part(bucket, one, parts))} ${one.name}`);
  return `${short(bucket.from, zone, Date.now())}: ${plural(bucket.count, "record")}${found.join("")}`;
}
