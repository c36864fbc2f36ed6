/**
 * How much more load a node can carry, in words. The node computes it by the code of `bucksaw plan --live`, and says which
 * resources have little head-room. `bucksaw status` prints the same warnings: `bucksaw/src/status/head_room.rs`.
 */
import { bytes, plural } from "../lib/numbers.ts";
import { about, duration } from "../lib/times.ts";
import type { HeadRoomFacts, NodeFacts } from "../state/cluster.ts";

/** A load factor above which the exact one tells nothing. */
const FACTOR_MAX = 100;

/** A load factor at which the CPU counts as full, as it is measured to some percent. */
const FACTOR_FULL = 1.05;

/** One limit of a node: what it is, and whether it is near. */
export interface Limit {
  text: string;
  near: boolean;
}

/** The limits of a node, the one that a growing load reaches first in front. */
export function limits(room: HeadRoomFacts): Limit[] {
  const cpu = { text: cpuText(room), near: room.small.includes("CPU") };
  const disk = { text: diskText(room), near: room.small.includes("disk space") };
  return room.limited_by === "disk space" ? [disk, cpu] : [cpu, disk];
}

/** The first limit, short enough for a column. `–` for a node that does not report it. */
export function firstLimit({ head_room: room }: NodeFacts): Limit {
  if (room === undefined) return { text: "–", near: false };
  if (room === null) return { text: "not known yet", near: false };
  const [first] = limits(room);
  return { text: (first?.text ?? "–").replace(" this load", ""), near: first?.near ?? false };
}

/** What the limits are computed from: `0.65 of 2 cores in use over 60 s`. */
export function basis(room: HeadRoomFacts): string {
  const cpu = `${room.cpu_cores.toFixed(2)} of ${plural(room.cores, "core")} in use over ${duration(room.seconds)}`;
  const { disk_seconds: time, disk_growth_bytes_per_second: growth } = room;
  if (time === null || growth === null) return `${cpu}; disk growth is not known yet`;
  if (growth <= 0) return cpu;
  return `${cpu}; the disk fills by ${bytes(growth)}/s over ${about(time)}`;
}

/** A sentence per resource with little head-room. */
export function warnings({ head_room: room }: NodeFacts): string[] {
  const found: string[] = [];
  if (room?.small.includes("CPU")) {
    const factor = room.cpu_full_at_load_factor ?? 1;
    found.push(
      factor < FACTOR_FULL
        ? "Its CPU is full: queries and ingest take longer."
        : `Its CPU is nearly full: it carries ${times(factor)} this load.`,
    );
  }
  // A disk that is full is the state of the node.
  const seconds = room?.disk_full_in_seconds ?? 0;
  if (room?.small.includes("disk space") && seconds > 0) {
    found.push(`Its disk is full in ${about(seconds)} at this growth: then it accepts nothing.`);
  }
  return found;
}

function cpuText({ cpu_full_at_load_factor: factor }: HeadRoomFacts): string {
  if (factor === null) return "CPU idle";
  return factor < FACTOR_FULL ? "CPU is full" : `CPU full at ${times(factor)} this load`;
}

function diskText({ disk_seconds: known, disk_full_in_seconds: seconds }: HeadRoomFacts): string {
  if (seconds !== null) return seconds > 0 ? `disk full in ${about(seconds)}` : "disk is full";
  return known === null ? "disk not known yet" : "disk is not filling";
}

/** `3.1×`: rounded down, so that the load is not overstated. */
function times(factor: number): string {
  if (factor > FACTOR_MAX) return `over ${FACTOR_MAX}×`;
  return `${factor < 10 ? (Math.floor(factor * 10) / 10).toFixed(1) : Math.floor(factor)}×`;
}
