import type { Level } from "../lib/level.ts";

/** A record as the page keeps it. */
export interface Row {
  /** 26 characters, 128 bits: a text and never a number. */
  id: string;
  /** RFC 3339 in UTC, with microseconds. */
  time: string;
  labels: Record<string, string>;
  text: string;
  level: Level | undefined;
  /** Whether the bytes were no UTF-8; `text` has signs in their place. */
  binary: boolean;
  /** Whether it was cut for its length, and goes on in the next. */
  cut: boolean;
  /** Whether this page kept only the begin of its text. */
  part?: true;
  /** Whether it is no record, but something to be known between records. */
  notice?: true;
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
  /** Segments in the trash that reach into the time of the answer, and their records; not in answers of older nodes. */
  trashed_segments?: number;
  trashed_records?: number;
}

/** A node that did not answer, or not to the end. */
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
  levels?: Partial<Record<Level, number>>;
}

/** To the worker: begin to read an answer, or let it go. */
export type Order = { kind: "read"; stream: number; url: string } | { kind: "cancel"; stream: number };

/** Why an answer ended early. */
export interface Failure {
  /** `refused`: the node says that the question is wrong. `lost`: the answer broke off or the node cannot be reached. */
  kind: "refused" | "busy" | "lost";
  message: string;
}

/** From the worker. */
export type Told =
  | { kind: "rows"; stream: number; rows: Row[] }
  | { kind: "buckets"; stream: number; buckets: Bucket[]; progress: number; stats: Stats | undefined }
  | { kind: "skipped"; stream: number; records: number; bytes: number }
  | { kind: "node"; stream: number; address: string; lost: string | undefined }
  | { kind: "open"; stream: number }
  | { kind: "end"; stream: number; stats: Stats | undefined }
  | { kind: "failed"; stream: number; failure: Failure };
