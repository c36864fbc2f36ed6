import { absolute, isRelative, momentMs, type Range } from "../lib/ranges.ts";
import { Answer } from "./answer.ts";
import { Context } from "./context.ts";
import { Counts } from "./counts.ts";
import { pageState, visit } from "./page.ts";
import { afterPaint, Store } from "./store.ts";
import { Tail } from "./tail.ts";
import { shownZone } from "./zone.ts";

/** The state that comes from the node; the page has one of each. */
export const answer = new Answer();
export const counts = new Counts();
export const tail = new Tail();
export const context = new Context();

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
  counting = false;
  counts.stop();
}

/**
 * Runs the search of the current state. Counting starts when the first records are visible. `anchor` is the id of a record at
 * which the list starts.
 */
export function search(anchor?: string) {
  const { q, range, order } = pageState();
  stopCounting();
  const onStart = () => {
    cancelPending = afterPaint(() => count(false));
  };
  answer.start({ q, range, order }, { anchor, typing: visit.value.typing, onStart });
}

/** Repeats the search; the shown records and counts stay until the new ones have arrived. */
export function refresh() {
  const { q, range, order } = pageState();
  const { status } = answer.store.value;
  if (status === "loading" || status === "stale" || counting) return;
  cancelPending();
  const onStart = () => {
    cancelPending = afterPaint(() => count(true));
  };
  answer.start({ q, range, order }, { onStart });
}

let counting = false;

/** Counts again. In live mode the shown counts stay until the new ones are complete. */
export function count(quietly: boolean, done: () => void = () => {}) {
  const { q, range, by } = pageState();
  cancelPending();
  counting = true;
  counts.start({ q, range, buckets: bars.count, by }, quietly, () => {
    counting = false;
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
  const [now, zone] = [Date.now(), shownZone()];
  const [from, to] = [momentMs(range.from, now, zone) ?? now - 3_600_000, momentMs(range.to, now, zone) ?? now];
  const relative = isRelative(range.from);
  if (first === undefined || last === undefined || !relative) return [from, to];
  return [Date.parse(first.from), range.to === "" ? Date.parse(last.to) : to];
}

/** The shown range with absolute times. */
export function pinned(): Range {
  const { range } = pageState();
  const isFixed = (text: string) => text !== "" && !isRelative(text);
  if (isFixed(range.from) && isFixed(range.to)) return range;
  return absolute(...shownSpan());
}
