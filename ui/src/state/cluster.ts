import { call } from "./streams.ts";

/** A node, as `/api/v1/cluster` tells of it. One that does not answer is told of by others, who know less. */
export interface NodeFacts {
  id: string;
  version?: string;
  addresses: Record<string, string>;
  roles: string[];
  /** What it says of itself, `silent`, or as `member`. */
  state: string;
  /** Why it accepts nothing. Missing while it accepts records. */
  halted?: string;
  /** How the asked node sees it. Missing where there is no cluster. */
  member?: "alive" | "suspect" | "down" | "left";
  /** Since when it is seen so. */
  since?: string;
  /** Where another live node with the same id is. */
  twin?: string;
  /** It is a store that is gone, and all that it kept is kept by enough others. */
  made_good?: boolean;
  /** What it and the asked node cannot do with each other because of their versions, as it goes on after its name. */
  apart?: string;
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
  /** Damaged files whose records are all kept by other stores. */
  damaged_made_good?: string[];
  /** By how much the clock jumped ahead, and for how long retention by age is suspended because of it. */
  retention_suspended_clock_ahead_seconds?: number;
  retention_suspended_left_seconds?: number;
  /** Notes of idempotency keys that could not be read. */
  damaged_keys?: number;
  segments_with_damaged_blocks?: number;
  /** Segments whose damaged blocks hold nothing that other stores do not keep, too. */
  segments_made_good?: string[];
  /** How a store gets on with restoring copies that are missing. Missing where each record is kept once. */
  repair?: RepairFacts;
}

/** Bytes are those of files, and estimates. */
export interface RepairFacts {
  /** When the last comparison with the other stores that came to its end began. */
  walked: string | null;
  missing_records: number;
  /** These are there while one is under way. */
  progress?: number;
  bytes_per_second?: number;
  left_seconds?: number | null;
  hindered_by?: string;
  hindered_by_store?: string;
}

/** Whether each record is kept as often as promised; as `repair` of all stores together. */
export interface CopiesFacts {
  kept: boolean;
  short_bytes: number;
  missing_records: number;
  lost_stores: number;
  progress?: number;
  bytes_per_second?: number;
  left_seconds?: number | null;
}

export interface ClusterFacts {
  nodes: NodeFacts[];
  /** The id of the node that was asked; missing where there is no cluster, as is what follows. */
  asked?: string;
  replication_factor?: number;
  stores_alive?: number;
  stores_missing?: number;
  copies?: CopiesFacts;
  /** The version that the asked node speaks with others. */
  protocol?: string;
  /** Nodes of another major version, which are no members. */
  strangers?: { address: string | null; protocol: number }[];
}

export const clusterQuery = {
  queryKey: ["cluster"],
  queryFn: ({ signal }: { signal: AbortSignal }) => call<ClusterFacts>("cluster", {}, signal),
};

/** The node that was asked: the one that this page is from. */
export function askedNode(cluster: ClusterFacts): NodeFacts | undefined {
  return cluster.nodes.find((node) => node.id === cluster.asked) ?? cluster.nodes[0];
}

/** Whether nobody has sent a record yet, as far as anybody knows. */
export function isEmpty(cluster: ClusterFacts): boolean {
  return cluster.nodes.every(
    ({ queue, store }) => (store.records ?? store.stored_bytes) === 0 && (queue.segments ?? queue.pending_bytes) === 0,
  );
}
