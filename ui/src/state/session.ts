import { absolute, durationMs, momentMs, type Range } from "../lib/ranges.ts";
import { Answer } from "./answer.ts";
import { Counts } from "./counts.ts";
import { pageState } from "./page.ts";
import { afterPaint, Store } from "./store.ts";
import { Tail } from "./tail.ts";

/** What the page is told by the node: one of each, as there is one page. */
export const answer = new Answer();
export const counts = new Counts();
export const tail = new Tail();

/**
 * The last question whose counts are whole, how many questions there were, and whether anything matched: what rests on the
 * same records (fields) is asked for only then, so that it takes no time from the records and the counts.
 */
export const settled = new Store({ times: 0, q: "", from: "", to: "", any: false });

/** How many bars the histogram has; it knows its width. */
export const bars = { count: 90 };

let cancelPending = () => {};

/** Counts no more, and does not begin to. */
export function stopCounting() {
  cancelPending();
  counts.stop();
}

/** Asks for everything that the state wants. The counts are asked for when the first records can be seen. */
export function search() {
  const { q, range, order } = pageState();
  stopCounting();
  answer.ask({ q, range, order }, () => {
    cancelPending = afterPaint(() => count(false));
  });
}

/** Counts again. While following, what is shown stays until the new counts are whole. */
export function count(quietly: boolean, done: () => void = () => {}) {
  const { q, range } = pageState();
  cancelPending();
  counts.ask(q, range, bars.count, quietly, () => {
    const { failure, total } = counts.store.value;
    if (failure === undefined) {
      const any = total !== undefined && total > 0;
      settled.change({ times: settled.value.times + 1, q, from: range.from, to: range.to, any });
    }
    done();
  });
}

/** The span that is shown, in milliseconds: the histogram's, which is by the node's clock; else by this one's. */
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

/** The range that is shown, with fixed times. */
export function pinned(): Range {
  const { range } = pageState();
  const isFixed = (text: string) => text !== "" && durationMs(text) === undefined;
  if (isFixed(range.from) && isFixed(range.to)) return range;
  return absolute(...shownSpan());
}
