/** The streams of the node and their volume, for the start of the page. */
import type { FieldFacts } from "../lib/complete.ts";
import type { Range } from "../lib/ranges.ts";
import { equals } from "../lib/terms.ts";
import type { Bucket, Stats } from "../worker/messages.ts";
import { call } from "./streams.ts";

export interface StreamFacts {
  labels: Record<string, string>;
  /** Its canonical name. */
  text: string;
  records: number;
  bytes: number;
}

export interface StreamsAnswer {
  streams: StreamFacts[];
  /** The number of streams, whether listed or not. */
  distinct: number;
  /** Whether there are more streams than were counted. */
  cut?: boolean;
  /** Whether records and bytes are estimates. */
  approximate?: boolean;
  stats?: Stats;
}

/** Streams listed at first, and at most. */
export const STREAMS_FIRST = 200;
export const STREAMS_MAX = 10_000;

/** The bars of a small chart. */
const BARS = 40;

/** Streams that one request counts. */
export const CHUNK = 20;

export function streamsQuery({ from, to }: Range, limit: number) {
  return {
    queryKey: ["streams", from, to, limit],
    queryFn: ({ signal }: { signal: AbortSignal }) => call<StreamsAnswer>("streams", { from, to, limit }, signal),
    placeholderData: (before: StreamsAnswer | undefined) => before,
  };
}

/** The exact records of some streams over time, and how many of them are errors. */
export interface Volume {
  /** By the name of the stream. */
  counts: ReadonlyMap<string, readonly number[]>;
  stats: Stats | undefined;
}

interface HistogramAnswer {
  buckets: Bucket[];
  stats?: Stats;
}

/** Counts the records of streams that match `q`. */
export function volumeQuery({ from, to }: Range, q: string, streams: readonly string[]) {
  return {
    queryKey: ["volume", from, to, q, ...streams],
    queryFn: async ({ signal }: { signal: AbortSignal }): Promise<Volume> => {
      const parameters = { q, from, to, buckets: BARS, by: "@stream", value: streams };
      const { buckets, stats } = await call<HistogramAnswer>("histogram", parameters, signal);
      const counts = streams.map((stream) => [stream, buckets.map((bucket) => bucket.groups?.[stream] ?? 0)] as const);
      return { counts: new Map(counts), stats };
    },
    placeholderData: (before: Volume | undefined) => before,
  };
}

/** The expression of a stream. It also matches streams with these labels and more. */
export function streamTerm(labels: Record<string, string>): string {
  return Object.entries(labels)
    .map(([name, value]) => equals(name, value))
    .join(" ");
}

interface LabelsAnswer {
  labels: { name: string; values: { value: string; streams: number }[]; distinct: number }[];
}

/** The labels of a range, for completions before the first search. */
export function labelsQuery({ from, to }: Range) {
  return {
    queryKey: ["labels", from, to],
    queryFn: async ({ signal }: { signal: AbortSignal }): Promise<FieldFacts[]> => {
      const { labels } = await call<LabelsAnswer>("labels", { from, to }, signal);
      return labels.map(({ name, values, distinct }) => ({
        name,
        kind: "label",
        records: 0,
        distinct,
        values: values.map(({ value, streams }) => ({ value, count: streams })),
      }));
    },
    staleTime: 60_000,
    retry: false,
  };
}
