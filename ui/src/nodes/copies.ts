/**
 * Whether records are kept as often as promised, in plain words. `bucksaw status` says the same:
 * `bucksaw/src/status/copies.rs`.
 */
import { bytes, count, plural } from "../lib/numbers.ts";
import { duration } from "../lib/times.ts";
import type { ClusterFacts, NodeFacts } from "../state/cluster.ts";

/** What concerns all nodes, a sentence each; none where all is kept as often as promised. */
export function shortfall(cluster: ClusterFacts): string[] {
  const { copies, replication_factor: wanted = 1 } = cluster;
  if (copies === undefined) return [];
  const said: string[] = [];
  if (wanted > 1 && copies.lost_stores >= wanted) {
    said.push(
      `${count(copies.lost_stores)} stores are lost at once, and there are ${count(wanted)} copies of each record: some ` +
        "records may be nowhere until one is back. Those that are gone for good are to be forgotten: bucksaw forget.",
    );
  }
  if (copies.short_bytes > 0 || copies.missing_records > 0) {
    said.push(
      `About ${bytes(copies.short_bytes)} are kept by fewer than ${plural(wanted, "store")}${progress(cluster)}.`,
    );
  }
  return said;
}

function progress({ copies }: ClusterFacts): string {
  if (copies?.progress === undefined) return "";
  const { progress: done, bytes_per_second: speed = 0, left_seconds: left } = copies;
  if (typeof left === "number") {
    return `: ${percent(done)} looked through at ${bytes(speed)}/s, about ${duration(left)} left`;
  }
  return done > 0 ? `: ${percent(done)} looked through` : ": restoring begins when a store has been gone for a minute";
}

/** What stops a node from restoring copies. */
export function hindrance(node: NodeFacts): string | undefined {
  switch (node.repair?.hindered_by) {
    case "too_few_stores":
      return "It cannot restore copies: there are too few stores that take them.";
    case "no_room":
      return "It cannot restore copies: no other store has room for them.";
    case "silent":
      return `It cannot look for missing copies: the store ${node.repair.hindered_by_store ?? ""} does not tell what it has.`;
    case "not_taken":
      return "It cannot restore copies: other stores do not take them. Its log says why.";
    case "unreadable":
      return "It cannot restore copies: it cannot read what it has. Its log says why.";
    default:
      // That a store is gone is said of that store.
      return undefined;
  }
}

/** How a store is getting on with comparing what it has with the others. `when` shows a time. */
export function compared({ repair }: NodeFacts, when: (time: string) => string): string | undefined {
  if (repair === undefined) return undefined;
  if (repair.progress !== undefined) {
    const { bytes_per_second: speed = 0, left_seconds: left } = repair;
    const rest = typeof left === "number" ? `, about ${duration(left)} left` : "";
    return `Comparing its records with other stores: ${percent(repair.progress)} at ${bytes(speed)}/s${rest}.`;
  }
  if (repair.walked === null) return "Its records have not been compared with other stores since it started.";
  const found =
    repair.missing_records === 0
      ? "nothing is missing"
      : `${plural(repair.missing_records, "record has", "records have")} too few copies`;
  return `Its records were compared with other stores at ${when(repair.walked)}: ${found}.`;
}

function percent(part: number): string {
  return `${Math.round(part * 100)}%`;
}
