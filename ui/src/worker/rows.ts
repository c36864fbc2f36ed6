import { levelOf } from "../lib/level.ts";
import type { Bucket, Row, Stats } from "./messages.ts";

/** A line of an answer. */
export type ParsedLine =
  | { kind: "row"; row: Row }
  | { kind: "stats"; stats: Stats }
  | {
      kind: "buckets";
      buckets: Bucket[];
      groups: readonly string[] | undefined;
      progress: number;
      stats: Stats | undefined;
    }
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
  attributes?: Record<string, string>;
  /** Values that are not UTF-8. */
  attributes_base64?: Record<string, string>;
  cut?: boolean;
  stats?: Stats;
  buckets?: Bucket[];
  group_values?: string[];
  progress?: number;
  skipped_records?: number;
  skipped_bytes?: number;
  node?: string;
  lost?: string;
  joined?: boolean;
}

export function readLine(line: string): ParsedLine {
  const parsed = JSON.parse(line) as Line;
  if (parsed.id !== undefined) {
    const binary = parsed.line_base64 !== undefined;
    const text = parsed.line ?? fromBase64(parsed.line_base64 ?? "");
    const labels = parsed.labels ?? {};
    const attributes = attributesOf(parsed);
    const level = levelOf(labels, text, attributes);
    const row = { id: parsed.id, time: parsed.time ?? "", labels, text, level, binary, cut: parsed.cut === true };
    return { kind: "row", row: attributes === undefined ? row : { ...row, attributes } };
  }
  if (parsed.buckets !== undefined) {
    const { buckets, group_values: groups, progress = 1, stats } = parsed;
    return { kind: "buckets", buckets, groups, progress, stats };
  }
  if (parsed.stats !== undefined) return { kind: "stats", stats: parsed.stats };
  if (parsed.skipped_records !== undefined || parsed.skipped_bytes !== undefined) {
    return { kind: "skipped", records: parsed.skipped_records ?? 0, bytes: parsed.skipped_bytes ?? 0 };
  }
  if (parsed.node !== undefined && (parsed.lost !== undefined || parsed.joined === true)) {
    return { kind: "node", address: parsed.node, lost: parsed.lost };
  }
  return { kind: "nothing" };
}

/** The attributes; bytes that are not UTF-8 become replacement characters. */
function attributesOf({ attributes, attributes_base64 }: Line): Record<string, string> | undefined {
  if (attributes_base64 === undefined) return attributes;
  const decoded = Object.entries(attributes_base64).map(([name, packed]) => [name, fromBase64(packed)] as const);
  return { ...attributes, ...Object.fromEntries(decoded) };
}

function fromBase64(packed: string): string {
  const bytes = Uint8Array.from(atob(packed), (char) => char.charCodeAt(0));
  return new TextDecoder().decode(bytes);
}
