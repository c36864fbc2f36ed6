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
  /** Progress of counting, and then of classifying levels, from 0 to 1. */
  progress: number;
  /** Whether all levels are known. */
  levelled: boolean;
  stats: Stats | undefined;
  failure: Failure | undefined;
}

const NOTHING: CountsState = {
  buckets: [],
  total: undefined,
  counted: 0,
  progress: 0,
  levelled: false,
  stats: undefined,
  failure: undefined,
};

/**
 * The number of matches over time. Counting needs no text and is fast; levels need the text of each match. So matches are
 * counted first, and bars get their colours while levels arrive.
 */
export class Counts {
  readonly store = new Store<CountsState>(NOTHING);
  #cancel: () => void = () => {};

  /** Starts counting. `quietly` keeps the shown counts until the new ones are complete, for repeated counts. */
  start(q: string, range: Range, buckets: number, quietly: boolean, done: () => void) {
    this.#cancel();
    if (!quietly) this.store.change({ total: undefined, counted: 0, progress: 0, levelled: false, failure: undefined });
    const url = (by: string) => callUrl("histogram", { q, from: range.from, to: range.to, buckets, by });
    const failed = (failure: Failure) => {
      this.store.change({ failure, progress: 1 });
      done();
    };
    this.#cancel = readStream(url(""), (message) => {
      if (message.kind === "failed") failed(message.failure);
      if (message.kind !== "buckets") return;
      const counted = sum(message.buckets);
      if (message.stats === undefined) {
        if (!quietly) this.store.change({ buckets: message.buckets, counted, progress: message.progress / 2 }, "frame");
        return;
      }
      const { buckets: before } = this.store.value;
      const coloured = quietly ? keepLevels(message.buckets, before) : message.buckets;
      this.store.change({
        buckets: coloured,
        counted,
        total: counted,
        progress: 0.5,
        stats: message.stats,
        failure: undefined,
      });
      const [first, last] = [message.buckets[0], message.buckets.at(-1)];
      if (first === undefined || last === undefined || counted === 0) {
        this.store.change({ progress: 1, levelled: true });
        done();
        return;
      }
      // Use the same range: the node's clock has advanced.
      const same = callUrl("histogram", { q, from: first.from, to: last.to, buckets, by: "level" });
      this.#cancel = readStream(same, (message) => {
        if (message.kind === "failed") failed(message.failure);
        if (message.kind !== "buckets") return;
        const whole = message.stats !== undefined;
        if (quietly && !whole) return;
        const { buckets, total } = this.store.value;
        // Newer records would be counted as well: colour bars only up to their heights.
        const merged = whole ? message.buckets : buckets.map((bucket, at) => withLevels(bucket, message.buckets[at]));
        const all = whole ? sum(message.buckets) : total;
        this.store.change(
          { buckets: merged, total: all, progress: 0.5 + message.progress / 2, levelled: whole },
          "frame",
        );
        if (whole) done();
      });
    });
  }

  /** Stops counting. The shown counts stay, marked as not those of the current query. */
  stop() {
    this.#cancel();
    const { total, counted } = this.store.value;
    this.store.change({ total: undefined, counted: total ?? counted, progress: 0 });
  }
}

function withLevels(bucket: Bucket, coloured: Bucket | undefined): Bucket {
  return coloured?.levels === undefined ? bucket : { ...bucket, levels: coloured.levels };
}

/** Keeps the levels of unchanged bars until the new levels are known. */
function keepLevels(buckets: Bucket[], before: Bucket[]): Bucket[] {
  const known = new Map(before.map((bucket) => [bucket.from, bucket]));
  return buckets.map((bucket) => withLevels(bucket, known.get(bucket.from)));
}

function sum(buckets: readonly Bucket[]): number {
  return buckets.reduce((total, bucket) => total + bucket.count, 0);
}
