import { call } from "./streams.ts";

/** An agent as `/api/v1/agents` describes it: what it last reported to a node. */
export interface AgentFacts {
  /** Stays the same over restarts. */
  id: string;
  /** The name of its machine; empty if unknown. */
  host: string;
  version: string;
  /** The node that it last reported to. */
  node: string;
  /** Whether it has a connection to that node. */
  connected: boolean;
  /** The age of its last report. */
  seen_seconds: number;
  files: number;
  unreadable_files: number;
  /** Unread and unacknowledged bytes of files, and the longest wait of one. */
  lag_bytes: number;
  lag_seconds: number;
  buffer_bytes: number;
  gaps: number;
  dropped_records: number;
  acked_records: number;
}

export interface AgentList {
  /** Those with problems first. */
  agents: AgentFacts[];
  /** All of them, listed or not. */
  count: number;
  /** Nodes whose agents are missing. */
  unresponsive_nodes: string[];
}

export const agentsQuery = {
  queryKey: ["agents"],
  queryFn: ({ signal }: { signal: AbortSignal }) => call<AgentList>("agents", {}, signal),
};
