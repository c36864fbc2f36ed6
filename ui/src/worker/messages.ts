import type { Level } from "../lib/level.ts";

/** A record in the page's memory. */
export interface Row {
  /** 26 characters for 128 bits; always a string, never a number. */
  id: string;
  /** RFC 3339 in UTC, with microseconds. */
  time: string;
  labels: Record<string, string>;
  /** The line, without the attributes. */
  text: string;
  /** Values of attributes by name, in order; left out without any. */
  attributes?: Readonly<Record<string, string>>;
  level: Level | undefined;
  /** Whether the bytes are not UTF-8; `text` has replacement characters. */
  binary: boolean;
  /** Whether it was cut for its length and continues in the next record. */
  cut: boolean;
  /** Whether `text` is only the start of the record. */
  part?: true;
  /** Whether it is a notice between records, not a record. */
  notice?: true;
  /** Whether it is shown as context of another record, not as a match. */
  context?: true;
}

export interface Stats {
  matched: number;
  segments_read: number;
  segments_skipped: number;
  bytes_scanned: number;
  bytes_skipped: number;
  seconds: number;
  nodes_asked: number;
  nodes_answered: number;
  nodes_missing?: MissingNode[];
  partial: boolean;
  partial_reasons: string[];
  /** Segments in the trash that overlap the range, and their records; missing in answers of older nodes. */
  trashed_segments?: number;
  trashed_records?: number;
  /** Where the expression probably does not mean what was meant. */
  hints?: string[];
}

/** A node that did not answer completely. */
export interface MissingNode {
  node: string;
  address: string;
  reason: string;
  message: string;
}

export interface Bucket {
  from: string;
  to: string;
  count: number;
  /** The records of each group of a breakdown. */
  groups?: Record<string, number>;
}

/** A message to the worker: read an answer, or cancel it. */
export type Order = { kind: "read"; stream: number; url: string } | { kind: "cancel"; stream: number };

/** Why an answer ended early. */
export interface Failure {
  /** `refused`: the node rejected the query. `unauthorized`: it needs a valid token. `lost`: the answer broke off or the node is unreachable. */
  kind: "refused" | "busy" | "lost" | "unauthorized";
  message: string;
}

/** A message from the worker. */
export type WorkerMessage =
  | { kind: "rows"; stream: number; rows: Row[] }
  | {
      kind: "buckets";
      stream: number;
      buckets: Bucket[];
      /** The groups of a breakdown in order; what none of them counts is the rest. */
      groups: readonly string[] | undefined;
      progress: number;
      stats: Stats | undefined;
    }
  | { kind: "skipped"; stream: number; records: number; bytes: number }
  | { kind: "node"; stream: number; address: string; lost: string | undefined }
  | { kind: "open"; stream: number }
  | { kind: "end"; stream: number; stats: Stats | undefined }
  | { kind: "failed"; stream: number; failure: Failure };
