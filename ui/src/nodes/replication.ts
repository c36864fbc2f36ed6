/**
 * Whether all records have the promised number of copies, and what blocks repair. `bucksaw status` prints the same:
 * `bucksaw/src/status/replication.rs`.
 */
import { bytes, count, plural } from "../lib/numbers.ts";
import { duration } from "../lib/times.ts";
import type { ClusterFacts, NodeFacts } from "../state/cluster.ts";

/** A sentence per replication problem of the whole cluster; empty if all records are fully replicated. */
export function underReplication(cluster: ClusterFacts): string[] {
  const { replication, replication_factor: factor = 1 } = cluster;
  if (replication === undefined) return [];
  const found: string[] = [];
  if (factor > 1 && replication.lost_stores >= factor) {
    found.push(
      `${count(replication.lost_stores)} stores are lost at the same time and the replication factor is ` +
        `${count(factor)}: some records may have no copy until one returns. Forget those that will not return: ` +
        "bucksaw forget.",
    );
  }
  if (replication.under_replicated_bytes > 0 || replication.under_replicated_records > 0) {
    found.push(
      `About ${bytes(replication.under_replicated_bytes)} are on fewer than ${plural(factor, "store")}${progress(cluster)}.`,
    );
  }
  return found;
}

function progress({ replication }: ClusterFacts): string {
  if (replication?.progress === undefined) return "";
  const { progress: done, bytes_per_second: rate = 0, remaining_seconds: remaining } = replication;
  if (typeof remaining === "number") {
    return `: ${percent(done)} compared at ${bytes(rate)}/s, about ${duration(remaining)} left`;
  }
  return done > 0 ? `: ${percent(done)} compared` : ": repair starts when a store has been down for a minute";
}

/** Why repair of a node does not progress. */
export function repairBlocker(node: NodeFacts): string | undefined {
  switch (node.repair?.blocked_by) {
    case "too_few_stores":
      return "It cannot re-replicate: too few stores accept copies.";
    case "no_space":
      return "It cannot re-replicate: no other store has space.";
    case "unreachable":
      return `It cannot compare its records: the store ${node.repair.blocked_by_store ?? ""} does not answer.`;
    case "copy_failed":
      return "It cannot re-replicate: sending copies to other stores fails. See its log.";
    case "unreadable":
      return "It cannot re-replicate: it cannot read its own records. See its log.";
    default:
      // An awaited store has a sentence of its own.
      return undefined;
  }
}

/** Progress or result of a store's comparison with other stores. `when` formats a time. */
export function repairProgress({ repair }: NodeFacts, when: (time: string) => string): string | undefined {
  if (repair === undefined) return undefined;
  if (repair.progress !== undefined) {
    const { bytes_per_second: rate = 0, remaining_seconds: remaining } = repair;
    const rest = typeof remaining === "number" ? `, about ${duration(remaining)} left` : "";
    return `Comparing its records with other stores: ${percent(repair.progress)} at ${bytes(rate)}/s${rest}.`;
  }
  if (repair.last_pass === null) return "Its records have not been compared with other stores since it started.";
  const found =
    repair.under_replicated_records === 0
      ? "all are fully replicated"
      : `${plural(repair.under_replicated_records, "record has", "records have")} too few copies`;
  return `Its records were compared with other stores at ${when(repair.last_pass)}: ${found}.`;
}

function percent(fraction: number): string {
  return `${Math.round(fraction * 100)}%`;
}
