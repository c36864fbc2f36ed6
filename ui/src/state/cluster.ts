import { mayAskNodes } from "./access.ts";
import { call } from "./streams.ts";

/** A node as `/api/v1/cluster` describes it. Of a node that does not answer there are only gossiped facts. */
export interface NodeFacts {
  id: string;
  /** The name of its machine; empty if unknown. */
  host?: string;
  version?: string;
  addresses: Record<string, string>;
  roles: string[];
  /** Its own report, `unresponsive`, or its membership state. */
  state: string;
  /** Why it accepts nothing. Missing while it accepts records. */
  halted?: string;
  /** Its state in the member table of the queried node. Missing without a cluster. */
  membership?: "alive" | "suspect" | "down" | "left";
  /** Start of that state. */
  since?: string;
  /** Address of another live node with the same id. */
  duplicate_address?: string;
  /** Whether it is an absent store whose records are all re-replicated. */
  re_replicated?: boolean;
  /** Which data exchange with the queried node its version prevents, as a predicate to follow its name. */
  version_skew?: string;
  load?: { bytes_per_second: number; connections: number; level: number };
  uptime_seconds?: number;
  queue: {
    segments?: number;
    pending_segments?: number;
    pending_bytes: number;
    oldest_pending_seconds?: number;
  };
  store: {
    segments?: number;
    records?: number;
    text_bytes?: number;
    stored_bytes: number;
    oldest: string | null;
    newest: string | null;
  };
  disk_free_bytes: number;
  damaged?: string[];
  /** Damaged files whose records are all re-replicated. */
  damaged_re_replicated?: string[];
  /** How far the clock jumped ahead, and how long retention by age remains suspended because of it. */
  retention_suspended?: { clock_ahead_seconds: number; remaining_seconds: number };
  /** Why the database of the node's store does not take records, and since when. */
  database?: { address: string; failure: string | null; failing_since: string | null };
  /** Why ClickHouse beside the store does not take records, since when, and the compressed bytes that wait. */
  sink?: {
    address: string;
    failure: string | null;
    failing_since: string | null;
    waiting_inserts: number;
    waiting_bytes: number;
    waiting_seconds: number;
  };
  /** What the node reads from Kafka. */
  kafka?: KafkaFacts;
  /** Names of the listeners that other machines can reach and that do not authenticate clients, or do not encrypt their tokens. */
  insecure_listeners?: string[];
  /** Changed files that cannot be used, so that their previous content is in use. */
  failed_reloads?: { file: string; path: string; failure: string }[];
  /** Under which encryption keys its segments are; absent if nothing is encrypted. */
  encryption?: EncryptionFacts;
  /** Idempotency keys that could not be read. */
  damaged_keys?: number;
  segments_with_damaged_blocks?: number;
  /** Segments whose damaged blocks are re-replicated. */
  segments_re_replicated?: string[];
  /** Repair status of a store. Missing with a replication factor of 1. */
  repair?: RepairFacts;
  /** How much more load it can carry; null while it is not known. Missing from an older node. */
  head_room?: HeadRoomFacts | null;
}

/** A resource that can limit a running node. */
export type LimitingResource = "CPU" | "disk space";

/** How much more load a node can carry. */
export interface HeadRoomFacts {
  /** Seconds of which the CPU is a mean. */
  seconds: number;
  cores: number;
  /** Cores in use, and what its work costs by the built-in calibration. */
  cpu_cores: number;
  cpu_cores_predicted: number;
  /** Null without load. */
  cpu_full_at_load_factor: number | null;
  /** Seconds of which the growth of the disk is a mean; null while it is not known. */
  disk_seconds: number | null;
  disk_growth_bytes_per_second: number | null;
  /** Null if the disk does not grow, or that is not known. */
  disk_full_in_seconds: number | null;
  /** The limit that a growing load reaches first; null without load. */
  limited_by: LimitingResource | null;
  /** Resources with little head-room. */
  small: LimitingResource[];
}

/** The encryption of a node's segments. */
export interface EncryptionFacts {
  /** `key` is null for segments that are not encrypted; `named` is false for a key that the node is not given. */
  keys: { key: string | null; segments: number; bytes: number; writing: boolean; named: boolean }[];
  /** Names of segments that cannot be read for want of their key. */
  segments_without_key: string[];
}

/** The Kafka source of a node. */
export interface KafkaFacts {
  brokers: string;
  group: string;
  workers: number;
  connected_workers: number;
  /** Since when a worker has had no connection. */
  disconnected_since: string | null;
  /** Why the queue refuses records. */
  refusal: string | null;
  last_failure: string | null;
  last_failure_at: string | null;
  partitions: number;
  /** Messages that are not stored with their durability. */
  lag: number;
  /** How long the oldest of these has waited at most. */
  behind_seconds: number | null;
  /** Messages that do not fit their mapping. */
  undecoded: number;
  /** Those with the largest lag first. */
  topics: TopicFacts[];
  topics_left_out: number;
}

export interface TopicFacts {
  topic: string;
  partitions: number;
  lag: number;
  behind_seconds: number | null;
  undecoded: number;
}

/** Bytes are estimates in bytes of segment files. */
export interface RepairFacts {
  /** Start of the last complete repair pass. */
  last_pass: string | null;
  under_replicated_records: number;
  /** These four are present during a pass. */
  progress?: number;
  bytes_per_second?: number;
  remaining_seconds?: number | null;
  blocked_by?: string;
  blocked_by_store?: string;
}

/** Replication status of all stores together. */
export interface ReplicationFacts {
  fully_replicated: boolean;
  under_replicated_bytes: number;
  under_replicated_records: number;
  lost_stores: number;
  progress?: number;
  bytes_per_second?: number;
  remaining_seconds?: number | null;
}

export interface ClusterFacts {
  nodes: NodeFacts[];
  /** The id of the node that answered. Missing without a cluster, as are the fields below. */
  queried_node?: string;
  replication_factor?: number;
  stores_alive?: number;
  stores_missing?: number;
  replication?: ReplicationFacts;
  /** Protocol version of the queried node. */
  protocol?: string;
  /** Nodes of another major protocol version, which cannot join. */
  incompatible_peers?: { address: string | null; protocol: number }[];
}

export const clusterQuery = {
  queryKey: ["cluster"],
  queryFn: ({ signal }: { signal: AbortSignal }) => call<ClusterFacts>("cluster", {}, signal),
  // A client that sees its own records only is refused.
  enabled: mayAskNodes,
};

/** The node that answered, from which this page comes. */
export function queriedNode(cluster: ClusterFacts): NodeFacts | undefined {
  return cluster.nodes.find((node) => node.id === cluster.queried_node) ?? cluster.nodes[0];
}

/** Whether no node is known to have a record. */
export function isEmpty(cluster: ClusterFacts): boolean {
  return cluster.nodes.every(
    ({ queue, store }) => (store.records ?? store.stored_bytes) === 0 && (queue.segments ?? queue.pending_bytes) === 0,
  );
}
