/**
 * Problems of a cluster and of its nodes, a sentence each. `bucksaw status` prints the same:
 * `bucksaw/src/status/health.rs`.
 */
import { bytes, count, plural } from "../lib/numbers.ts";
import { duration } from "../lib/times.ts";
import type { ClusterFacts, EncryptionFacts, KafkaFacts, NodeFacts } from "../state/cluster.ts";
import { warnings } from "./headRoomText.ts";
import { repairBlocker, underReplication } from "./replication.ts";

/** Age of the oldest pending records above which the stores do not keep up with a queue. */
const PENDING_SECONDS_MAX = 30;

/** How long rows may wait for ClickHouse beside the segments, in seconds. */
const SINK_WAITING_SECONDS_MAX = 30;

/** How long a message of Kafka may wait, in seconds. */
const KAFKA_BEHIND_SECONDS_MAX = 30;

/** The state of a node in one word: its own report while it is a live member, else its membership state. */
export function nodeState(node: NodeFacts): string {
  return node.membership === undefined || node.membership === "alive" ? node.state : node.membership;
}

/** Whether the cluster is healthy, and one sentence about it. */
export function clusterHealth(cluster: ClusterFacts): { healthy: boolean; text: string } {
  const { replication_factor: factor = 1, stores_alive: stores = 1, stores_missing: missing = 0, nodes } = cluster;
  const { incompatible_peers: peers = [], protocol = "" } = cluster;
  if (missing > 0) {
    const text =
      `${count(stores)} of ${plural(factor, "store")} ${stores === 1 ? "is" : "are"} alive: nothing is gathered until ` +
      `${count(missing)} more ${missing === 1 ? "joins" : "join"}. Records stay in their queues and are found there.`;
    return { healthy: false, text };
  }
  const [peer] = peers;
  if (peer !== undefined) {
    const text =
      `The node at ${peer.address ?? "an unknown address"} has protocol version ${peer.protocol}, this node ${protocol}: ` +
      "it cannot join.";
    return { healthy: false, text };
  }
  const replication = underReplication(cluster).join(" ");
  const unhealthy = nodes.filter((node) => problems(node).length > 0 || damage(node) > 0).length;
  const tight = nodes.filter((node) => warnings(node).length > 0).length;
  const found = [
    unhealthy > 0 ? `${plural(unhealthy, "node has", "nodes have")} problems.` : "",
    replication,
    tight > 0 ? `${plural(tight, "node has", "nodes have")} little head-room.` : "",
  ].filter((text) => text !== "");
  const members = `${count(factor)}, ${plural(stores, "store")} alive.`;
  if (found.length === 0) return { healthy: true, text: `All is well: replication factor ${members}` };
  // Where only the head-room is little, nothing is wrong yet.
  if (unhealthy === 0 && replication === "") found.push(`Replication factor ${members}`);
  return { healthy: false, text: found.join(" ") };
}

/** The problems of a node, except damage. `when` formats a time. */
export function problems(node: NodeFacts, when: (time: string) => string = (time) => time): string[] {
  const found: string[] = [];
  const since = node.since === undefined ? "" : ` since ${when(node.since)}`;
  if (node.membership === "down") {
    found.push(`It has been down${since}: ${effectOfDown(node)}`);
  } else if (node.membership === "suspect") {
    found.push(`It has not answered${since} and will soon be marked down.`);
  } else if (node.state === "unresponsive") {
    found.push("It is alive but does not report its status: it is slow or was paused.");
  } else if (node.state === "disk full") {
    found.push("It accepts nothing: its disk is full.");
  } else if (node.state === "halted") {
    found.push(`It accepts nothing: ${node.halted ?? "no reason given"}.`);
  } else if (node.state === "stopping") {
    found.push("It is stopping.");
  }
  if (node.duplicate_address !== undefined) {
    found.push(`The node at ${node.duplicate_address} has the same id: a data directory was copied. Stop one of them.`);
  }
  if (node.version_skew !== undefined) {
    found.push(`It ${node.version_skew}.`);
  }
  const { retention_suspended: suspended, database, sink } = node;
  if (suspended !== undefined) {
    const [ahead, left] = [suspended.clock_ahead_seconds, duration(suspended.remaining_seconds)];
    found.push(
      `It removes nothing by age: its clock is ${duration(ahead)} ahead, as after a long stop or a jump. Set it right if it is wrong, or retention resumes in ${left}.`,
    );
  }
  const sinceTime = (time?: string | null) => (time ? ` since ${when(time)}` : "");
  if (database?.failure) {
    found.push(`It keeps records in its queue${sinceTime(database.failing_since)}: ${database.failure}.`);
  }
  if (sink?.failure) {
    const waiting = bytes(sink.waiting_bytes);
    found.push(`It has ${waiting} on disk for ClickHouse${sinceTime(sink.failing_since)}: ${sink.failure}.`);
  } else if (sink !== undefined && sink.waiting_seconds > SINK_WAITING_SECONDS_MAX) {
    const waiting = `${bytes(sink.waiting_bytes)} on disk for ClickHouse`;
    found.push(`It has ${waiting}, the oldest for ${duration(sink.waiting_seconds)}: ClickHouse is slow.`);
  }
  const unread = node.kafka === undefined ? undefined : kafkaProblem(node.kafka, when);
  if (unread !== undefined) found.push(unread);
  for (const { file, path, failure } of node.failed_reloads ?? []) {
    found.push(`It cannot use the changed ${file} ${path}, and keeps its previous content: ${failure}.`);
  }
  if (node.encryption !== undefined) found.push(...encryptionProblems(node.encryption));
  if ((node.damaged_keys ?? 0) > 0) {
    found.push(
      `It could not read ${plural(node.damaged_keys ?? 0, "idempotency key")}: a retry of such a batch may be stored as new records.`,
    );
  }
  const pending = node.queue.oldest_pending_seconds ?? 0;
  if (pending > PENDING_SECONDS_MAX) {
    found.push(`It has records that have been pending for ${duration(pending)}.`);
  }
  const blocker = repairBlocker(node);
  if (blocker !== undefined) found.push(blocker);
  return found;
}

/** Segments that cannot be read for want of a key, or not after a restart. */
function encryptionProblems(encryption: EncryptionFacts): string[] {
  const keyless = encryption.segments_without_key.length;
  const end = keyless === 0 ? ", or they cannot be read after a restart" : "";
  const unnamed = encryption.keys.filter((usage) => !usage.named && usage.segments > 0);
  const found = unnamed.map(
    (usage) =>
      `It has ${plural(usage.segments, "segment")} encrypted with key ${usage.key ?? ""}, which is not among its keys: ` +
      `add it to them again${end}.`,
  );
  if (keyless > 0) {
    found.push(`It cannot read ${plural(keyless, "segment")} for want of a key: answers over their time are partial.`);
  }
  return found;
}

/** Why a node does not read from Kafka, or how far it is behind. */
function kafkaProblem(kafka: KafkaFacts, when: (time: string) => string): string | undefined {
  if (kafka.disconnected_since !== null) {
    const reason = kafka.last_failure === null ? "" : `: ${kafka.last_failure}`;
    return `It has had no connection to Kafka since ${when(kafka.disconnected_since)}${reason}.`;
  }
  if (kafka.refusal !== null) {
    return `It reads nothing from Kafka, as its queue refuses records: ${kafka.refusal}.`;
  }
  const behind = kafka.behind_seconds ?? 0;
  if (behind <= KAFKA_BEHIND_SECONDS_MAX) return undefined;
  const [topic] = kafka.topics;
  const most = topic === undefined ? "" : `, most of topic ${topic.topic}`;
  return `It is ${duration(behind)} behind Kafka: ${plural(kafka.lag, "message is", "messages are")} not stored${most}.`;
}

/** A risk of a node that was accepted at its start. */
export function acceptedRisk(node: NodeFacts): string | undefined {
  const listeners = node.insecure_listeners ?? [];
  return listeners.length === 0
    ? undefined
    : `It lets other machines connect without authentication or encryption: ${listeners.join(", ")}.`;
}

/** What a node's absence means for answers. */
function effectOfDown(node: NodeFacts): string {
  if (!node.re_replicated) return "records that only it holds are missing from answers.";
  const effect = node.roles.includes("ingest")
    ? "its stored records are re-replicated, records in its queue are missing from answers"
    : "its records are re-replicated";
  return `${effect}; “bucksaw forget” removes it from the list.`;
}

/** The number of damaged files and of segments with damaged blocks. */
export function damage(node: NodeFacts): number {
  return (node.damaged?.length ?? 0) + (node.segments_with_damaged_blocks ?? 0);
}

/** Damage that makes no answer partial, because other stores have the records. */
export function reReplicatedDamage(node: NodeFacts): string | undefined {
  const files = node.damaged_re_replicated?.length ?? 0;
  const segments = node.segments_re_replicated?.length ?? 0;
  const parts = [
    files > 0 ? `all records of ${plural(files, "damaged file")}, which may be deleted` : undefined,
    segments > 0
      ? `all records of the damaged blocks of ${plural(segments, "segment")}, not to be deleted: “bucksaw verify --repair” saves their intact blocks`
      : undefined,
  ].filter((text) => text !== undefined);
  return parts.length === 0 ? undefined : `Its answers are complete: other stores have ${parts.join("; and ")}.`;
}

/** Nodes in display order: with problems, with little head-room, then the queried node, others, and last those that left. */
export function inOrder(cluster: ClusterFacts): NodeFacts[] {
  const rank = (node: NodeFacts) => {
    if (problems(node).length > 0 || damage(node) > 0) return 0;
    if (warnings(node).length > 0) return 1;
    if (node.id === cluster.queried_node) return 2;
    return node.membership === "left" ? 4 : 3;
  };
  return cluster.nodes.toSorted((one, other) => rank(one) - rank(other) || (one.id < other.id ? -1 : 1));
}

/** The URL of another node's page; `undefined` if its HTTP address is unknown or a wildcard. */
export function pageOf(node: NodeFacts): string | undefined {
  const http = node.addresses.http;
  return http === undefined || /^(0\.0\.0\.0|\[::\]):/.test(http) ? undefined : `http://${http}/nodes`;
}
