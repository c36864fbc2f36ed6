import { LEVELS } from "../lib/level.ts";
import { count, plural } from "../lib/numbers.ts";
import { short } from "../lib/times.ts";
import type { Bucket } from "../worker/messages.ts";

/** What a bar is made of, from the bottom up: the worst level, the others, and what has none. */
export const PARTS = [...LEVELS, "none"] as const;
export type PartName = (typeof PARTS)[number];

/** How many of a bucket's records have a level; the rest has none, or is not looked at yet. */
export function part(bucket: Bucket, name: PartName): number {
  if (name !== "none") return bucket.levels?.[name] ?? 0;
  return bucket.count - LEVELS.reduce((sum, level) => sum + (bucket.levels?.[level] ?? 0), 0);
}

/** What a bar says, in words. */
export function described(bucket: Bucket, utc: boolean): string {
  const levels = LEVELS.map((level) => [level, bucket.levels?.[level] ?? 0] as const).filter(([, count]) => count > 0);
  const found = levels.map(([level, records]) => `, ${count(records)} ${level}`).join("");
  return `${short(bucket.from, utc, Date.now())}: ${plural(bucket.count, "record")}${found}`;
}
