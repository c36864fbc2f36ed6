import { absolute, durationMs, momentMs, type Range } from "../lib/ranges.ts";
import { Answer } from "./answer.ts";
import { Counts } from "./counts.ts";
import { pageState } from "./page.ts";
import { afterPaint, Store } from "./store.ts";
import { Tail } from "./tail.ts";

/** The state that comes from the node; the page has one of each. */
export const answer = new Answer();
export const counts = new Counts();
export const tail = new Tail();

/**
 * The last query whose counts are complete, the number of queries, and whether anything matched. Fields are requested only
 * then, so that they do not delay records and counts.
 */
export const settled = new Store({ times: 0, q: "", from: "", to: "", any: false });

/** The number of bars of the histogram, which depends on its width. */
export const bars = { count: 90 };

let cancelPending = () => {};

/** Stops counting, also if it has not started. */
export function stopCounting() {
  cancelPending();
  counts.stop();
}

/** Runs the search of the current state. Counting starts when the first records are visible. */
export function search() {
  const { q, range, order } = pageState();
  stopCounting();
  answer.start({ q, range, order }, () => {
    cancelPending = afterPaint(() => count(false));
  });
}

/** Counts again. In live mode the shown counts stay until the new ones are complete. */
export function count(quietly: boolean, done: () => void = () => {}) {
  const { q, range } = pageState();
  cancelPending();
  counts.start(q, range, bars.count, quietly, () => {
    const { failure, total } = counts.store.value;
    if (failure === undefined) {
      const any = total !== undefined && total > 0;
      settled.change({ times: settled.value.times + 1, q, from: range.from, to: range.to, any });
    }
    done();
  });
}

/** The shown range in milliseconds: that of the histogram, by the node's clock, or else by the browser's. */
export function shownSpan(): [fromMs: number, toMs: number] {
  const { buckets } = counts.store.value;
  const [first, last] = [buckets[0], buckets.at(-1)];
  const { range } = pageState();
  const now = Date.now();
  const [from, to] = [momentMs(range.from, now) ?? now - 3_600_000, momentMs(range.to, now) ?? now];
  const relative = durationMs(range.from) !== undefined;
  if (first === undefined || last === undefined || !relative) return [from, to];
  return [Date.parse(first.from), range.to === "" ? Date.parse(last.to) : to];
}

/** The shown range with absolute times. */
export function pinned(): Range {
  const { range } = pageState();
  const isFixed = (text: string) => text !== "" && durationMs(text) === undefined;
  if (isFixed(range.from) && isFixed(range.to)) return range;
  return absolute(...shownSpan());
}
