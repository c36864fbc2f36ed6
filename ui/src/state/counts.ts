import type { Range } from "../lib/ranges.ts";
import type { Bucket, Failure, Stats } from "../worker/messages.ts";
import { Store } from "./store.ts";
import { callUrl, readStream } from "./streams.ts";

export interface CountsState {
  buckets: Bucket[];
  /** The exact number of matches; `undefined` until all are counted. */
  total: number | undefined;
  /** The matches counted so far. */
  counted: number;
  /** Whether the counts are those of the search before, because counting has stopped. */
  stale: boolean;
  /** The field of the groups; empty if the counts are not broken down. */
  by: string;
  /** The groups of the breakdown in order. */
  groups: readonly string[];
  /** Progress of counting, and then of grouping, from 0 to 1. */
  progress: number;
  /** Whether each record is counted in its group. */
  grouped: boolean;
  stats: Stats | undefined;
  failure: Failure | undefined;
}

const NOTHING: CountsState = {
  buckets: [],
  total: undefined,
  counted: 0,
  stale: false,
  by: "",
  groups: [],
  progress: 0,
  grouped: false,
  stats: undefined,
  failure: undefined,
};

/** What is counted. */
export interface Counting {
  q: string;
  range: Range;
  /** The number of bars. */
  buckets: number;
  /** The field of the breakdown; empty for none. */
  by: string;
}

/**
 * The number of matches over time. Counting needs no text and is fast; a breakdown needs the text of each match. So matches
 * are counted first, and bars get their colours while the groups arrive.
 */
export class Counts {
  readonly store = new Store<CountsState>(NOTHING);
  #cancel: () => void = () => {};

  /** Starts counting. `quietly` keeps the shown counts until the new ones are complete, for repeated counts. */
  start({ q, range, buckets, by }: Counting, quietly: boolean, done: () => void) {
    this.#cancel();
    const begin = { total: undefined, counted: 0, progress: 0, grouped: false, stale: false, failure: undefined };
    if (!quietly) this.store.change(begin);
    const failed = (failure: Failure) => {
      this.store.change({ failure, progress: 1 });
      done();
    };
    const url = callUrl("histogram", { q, from: range.from, to: range.to, buckets });
    this.#cancel = readStream(url, (message) => {
      if (message.kind === "failed") failed(message.failure);
      if (message.kind !== "buckets") return;
      const counted = sum(message.buckets);
      if (message.stats === undefined) {
        if (!quietly) {
          const change = { buckets: message.buckets, counted, progress: message.progress / 2 };
          this.store.change({ ...change, by, groups: [] }, "frame");
        }
        return;
      }
      const { buckets: before, by: byBefore, groups } = this.store.value;
      const coloured = quietly && by === byBefore ? keepGroups(message.buckets, before) : message.buckets;
      this.store.change({
        buckets: coloured,
        counted,
        total: counted,
        by,
        groups: quietly && by === byBefore ? groups : [],
        progress: 0.5,
        stale: false,
        stats: message.stats,
        failure: undefined,
      });
      const [first, last] = [message.buckets[0], message.buckets.at(-1)];
      if (first === undefined || last === undefined || counted === 0 || by === "") {
        this.store.change({ progress: 1, grouped: true });
        done();
        return;
      }
      // Use the same range: the node's clock has advanced.
      const same = callUrl("histogram", { q, from: first.from, to: last.to, buckets, by });
      this.#cancel = readStream(same, (message) => {
        if (message.kind === "failed") failed(message.failure);
        if (message.kind !== "buckets") return;
        const whole = message.stats !== undefined;
        if (quietly && !whole) return;
        const { buckets, total, groups } = this.store.value;
        // Newer records would be counted as well: colour bars only up to their heights.
        const merged = whole ? message.buckets : buckets.map((bucket, at) => withGroups(bucket, message.buckets[at]));
        const all = whole ? sum(message.buckets) : total;
        const change = { buckets: merged, total: all, progress: 0.5 + message.progress / 2, grouped: whole };
        this.store.change({ ...change, groups: message.groups ?? groups }, "frame");
        if (whole) done();
      });
    });
  }

  /** Stops counting. The shown counts stay, marked as not those of the current query. */
  stop() {
    this.#cancel();
    const { total, counted } = this.store.value;
    this.store.change({ total: undefined, counted: total ?? counted, progress: 0, stale: true });
  }
}

function withGroups(bucket: Bucket, coloured: Bucket | undefined): Bucket {
  return coloured?.groups === undefined ? bucket : { ...bucket, groups: coloured.groups };
}

/** Keeps the groups of unchanged bars until the new groups are known. */
function keepGroups(buckets: Bucket[], before: Bucket[]): Bucket[] {
  const known = new Map(before.map((bucket) => [bucket.from, bucket]));
  return buckets.map((bucket) => withGroups(bucket, known.get(bucket.from)));
}

function sum(buckets: readonly Bucket[]): number {
  return buckets.reduce((total, bucket) => total + bucket.count, 0);
}
