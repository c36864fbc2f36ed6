import { levelOf } from "../lib/level.ts";
import type { Bucket, Row, Stats } from "./messages.ts";

/** A line of an answer. */
export type Said =
  | { kind: "row"; row: Row }
  | { kind: "stats"; stats: Stats }
  | { kind: "buckets"; buckets: Bucket[]; progress: number; stats: Stats | undefined }
  | { kind: "skipped"; records: number; bytes: number }
  /** A node joined or left the tail, with the reason. */
  | { kind: "node"; address: string; lost: string | undefined }
  | { kind: "nothing" };

interface Line {
  id?: string;
  time?: string;
  labels?: Record<string, string>;
  line?: string;
  line_base64?: string;
  cut?: boolean;
  stats?: Stats;
  buckets?: Bucket[];
  progress?: number;
  skipped_records?: number;
  skipped_bytes?: number;
  node?: string;
  lost?: string;
  joined?: boolean;
}

export function readLine(line: string): Said {
  const said = JSON.parse(line) as Line;
  if (said.id !== undefined) {
    const binary = said.line_base64 !== undefined;
    const text = said.line ?? fromBase64(said.line_base64 ?? "");
    const labels = said.labels ?? {};
    const level = levelOf(labels, text);
    return {
      kind: "row",
      row: { id: said.id, time: said.time ?? "", labels, text, level, binary, cut: said.cut === true },
    };
  }
  if (said.buckets !== undefined) {
    return { kind: "buckets", buckets: said.buckets, progress: said.progress ?? 1, stats: said.stats };
  }
  if (said.stats !== undefined) return { kind: "stats", stats: said.stats };
  if (said.skipped_records !== undefined || said.skipped_bytes !== undefined) {
    return { kind: "skipped", records: said.skipped_records ?? 0, bytes: said.skipped_bytes ?? 0 };
  }
  if (said.node !== undefined && (said.lost !== undefined || said.joined === true)) {
    return { kind: "node", address: said.node, lost: said.lost };
  }
  return { kind: "nothing" };
}

function fromBase64(packed: string): string {
  const bytes = Uint8Array.from(atob(packed), (char) => char.charCodeAt(0));
  return new TextDecoder().decode(bytes);
}
