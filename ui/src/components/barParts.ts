import { LEVELS } from "../lib/level.ts";
import { count, plural } from "../lib/numbers.ts";
import { short } from "../lib/times.ts";
import type { Bucket } from "../worker/messages.ts";

/** The parts of a bar from the bottom: levels from the worst on, then records without a level. */
export const PARTS = [...LEVELS, "none"] as const;
export type PartName = (typeof PARTS)[number];

/** The records of a bucket that have a level; the others have none, or are not classified yet. */
export function part(bucket: Bucket, name: PartName): number {
  if (name !== "none") return bucket.levels?.[name] ?? 0;
  return bucket.count - LEVELS.reduce((sum, level) => sum + (bucket.levels?.[level] ?? 0), 0);
}

/** The description of a bar. */
export function described(bucket: Bucket, utc: boolean): string {
  const levels = LEVELS.map((level) => [level, bucket.levels?.[level] ?? 0] as const).filter(([, count]) => count > 0);
  const found = levels.map(([level, records]) => `, ${count(records)} ${level}`).join("");
  return `${short(bucket.from, utc, Date.now())}: ${plural(bucket.count, "record")}${found}`;
}
