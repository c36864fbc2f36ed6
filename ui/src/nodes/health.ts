/**
 * What has to be seen to in a cluster, in plain words. `bucksaw status` says the same: `bucksaw/src/status/health.rs`.
 */
import { count, plural } from "../lib/numbers.ts";
import { duration } from "../lib/times.ts";
import type { ClusterFacts, NodeFacts } from "../state/cluster.ts";
import { hindrance, shortfall } from "./copies.ts";

/** A queue whose oldest records wait for longer than this is one that the stores do not keep up with. */
const WAITS_MAX_SECONDS = 30;

/** How a node is, in a word: what it says of itself, or how it is seen when it says nothing. */
export function seen(node: NodeFacts): string {
  return node.member === undefined || node.member === "alive" ? node.state : node.member;
}

/** How the cluster is: a sentence where all is well, and else one for what concerns all nodes. */
export function overall(cluster: ClusterFacts): { well: boolean; text: string } {
  const { replication_factor: wanted = 1, stores_alive: stores = 1, stores_missing: missing = 0, nodes } = cluster;
  const { strangers = [], protocol = "" } = cluster;
  if (missing > 0) {
    const text =
      `${count(stores)} of ${plural(wanted, "store")} ${stores === 1 ? "is" : "are"} there: nothing is gathered until ` +
      `${count(missing)} more ${missing === 1 ? "comes" : "come"}. Records stay where they were taken in, and are found there.`;
    return { well: false, text };
  }
  const [stranger] = strangers;
  if (stranger !== undefined) {
    const text =
      `A node at ${stranger.address ?? "an unknown address"} speaks version ${stranger.protocol} of what nodes say to each ` +
      `other, and this one ${protocol}: it is no member.`;
    return { well: false, text };
  }
  const short = shortfall(cluster).join(" ");
  const inTrouble = nodes.filter((node) => troubles(node).length > 0 || damage(node) > 0).length;
  if (inTrouble > 0) {
    const text = `${plural(inTrouble, "node")} ${inTrouble === 1 ? "needs" : "need"} to be looked at.`;
    return { well: false, text: short === "" ? text : `${text} ${short}` };
  }
  if (short !== "") return { well: false, text: short };
  return { well: true, text: `All is well: each record is kept by ${count(wanted)} of ${plural(stores, "store")}.` };
}

/** What is wrong with a node; damage has a place of its own. `when` shows a time. */
export function troubles(node: NodeFacts, when: (time: string) => string = (time) => time): string[] {
  const found: string[] = [];
  const since = node.since === undefined ? "" : ` since ${when(node.since)}`;
  if (node.member === "down") {
    found.push(`It has been down${since}: ${absent(node)}`);
  } else if (node.member === "suspect") {
    found.push(`It has not answered${since}, and counts as down in a moment.`);
  } else if (node.state === "silent") {
    found.push("It is there, and does not tell how it is: it is slow, or was paused.");
  } else if (node.state === "disk full") {
    found.push("It accepts nothing: its disk is full.");
  } else if (node.state === "halted") {
    found.push(`It accepts nothing: ${node.halted ?? "it does not say why"}.`);
  } else if (node.state === "stopping") {
    found.push("It is stopping.");
  }
  if (node.twin !== undefined) {
    found.push(`The node at ${node.twin} has the same id: a data directory was copied. Stop one of them.`);
  }
  if (node.apart !== undefined) {
    found.push(`It ${node.apart}.`);
  }
  const ahead = node.retention_suspended_clock_ahead_seconds;
  if (ahead !== undefined) {
    const left = duration(node.retention_suspended_left_seconds ?? 0);
    found.push(
      `It removes nothing by age: its clock jumped ${duration(ahead)} ahead. Set it right, or retention goes on in ${left}.`,
    );
  }
  if ((node.damaged_keys ?? 0) > 0) {
    found.push(
      `It could not read ${plural(node.damaged_keys ?? 0, "note")} of batch keys: a retry of such a batch may be stored as new records.`,
    );
  }
  const waits = node.queue.oldest_pending_seconds ?? 0;
  if (waits > WAITS_MAX_SECONDS) {
    found.push(`Records have waited for the stores for ${duration(waits)}.`);
  }
  const hindered = hindrance(node);
  if (hindered !== undefined) found.push(hindered);
  return found;
}

/** What it means that a node is down. */
function absent(node: NodeFacts): string {
  if (!node.made_good) return "what it alone holds is missing from answers.";
  const kept = node.roles.includes("ingest")
    ? "what it stored is kept elsewhere, what was in its queue is missing from answers"
    : "its records are kept elsewhere";
  return `${kept}; “bucksaw forget” takes it from the list.`;
}

/** Files that are damaged, and segments with damaged blocks. */
export function damage(node: NodeFacts): number {
  return (node.damaged?.length ?? 0) + (node.segments_with_damaged_blocks ?? 0);
}

/** What is damaged and missing from no answer, because other stores keep it, too. */
export function madeGood(node: NodeFacts): string | undefined {
  const files = node.damaged_made_good?.length ?? 0;
  const segments = node.segments_made_good?.length ?? 0;
  const kept = [
    files > 0 ? `all records of ${plural(files, "damaged file")}, which may be deleted` : undefined,
    segments > 0
      ? `all records of the damaged blocks of ${plural(segments, "segment")}, not to be deleted: “bucksaw verify --repair” saves what is sound of it`
      : undefined,
  ].filter((text) => text !== undefined);
  return kept.length === 0 ? undefined : `Its answers are whole: other stores keep ${kept.join("; and ")}.`;
}

/** Who is in trouble comes first, then the node that was asked; who has left comes last. */
export function inOrder(cluster: ClusterFacts): NodeFacts[] {
  const rank = (node: NodeFacts) => {
    if (troubles(node).length > 0 || damage(node) > 0) return 0;
    if (node.id === cluster.asked) return 1;
    return node.member === "left" ? 3 : 2;
  };
  return cluster.nodes.toSorted((one, other) => rank(one) - rank(other) || (one.id < other.id ? -1 : 1));
}

/** The page of another node, from what it says of its HTTP listener. */
export function pageOf(node: NodeFacts): string | undefined {
  const http = node.addresses.http;
  return http === undefined || /^(0\.0\.0\.0|\[::\]):/.test(http) ? undefined : `http://${http}/nodes`;
}
