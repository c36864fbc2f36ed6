import { negated, withTerm } from "../lib/expression.ts";
import { durationMs, type Range, shifted } from "../lib/ranges.ts";
import { writeState } from "../lib/url.ts";
import { go, pageState } from "../state/page.ts";
import { remember } from "../state/preferences.ts";
import { answer, pinned, search, shownSpan, stopCounting, tail } from "../state/session.ts";
import { say } from "./Announcer.tsx";
import { copy } from "./copy.ts";

/** The actions of buttons and keys. They change the state of the page, from which everything is rendered. */

export function setFilter(q: string, settled: boolean) {
  const same = q === pageState().q;
  go({ q, record: "" }, settled ? "push" : "replace");
  if (same) searchAgain();
}

/** Cancels counting while the user types: its result is obsolete, and the node's cores are for the next query. */
export function pauseCounting() {
  if (!pageState().tail) stopCounting();
}

export function addTerm(term: string, without: boolean) {
  const q = withTerm(pageState().q, without ? negated(term) : term);
  remember(q);
  go({ q });
  say(without ? "Excluded by the filter" : "Added to the filter");
}

export function setRange(range: Range) {
  go({ range, tail: range.to === "" && pageState().tail });
}

export function shiftRange(how: "earlier" | "later" | "wider") {
  setRange(shifted(...shownSpan(), how, Date.now()));
}

export function toggleColumn(name: string) {
  const { columns } = pageState();
  go({ columns: columns.includes(name) ? columns.filter((other) => other !== name) : [...columns, name] });
}

export function toggleOrder() {
  go({ order: pageState().order === "desc" ? "asc" : "desc" });
}

export function toggleWrap() {
  go({ wrap: !pageState().wrap });
}

export function toggleTail() {
  const { tail, range } = pageState();
  // Live mode shows the present.
  const open = range.to === "" && durationMs(range.from) !== undefined ? range : { from: "15m", to: "" };
  go(tail ? { tail: false } : { tail: true, range: open });
}

export function togglePause() {
  if (tail.store.value.paused) tail.resume();
  else tail.pause();
}

export function openRecord(id: string) {
  go({ record: id }, pageState().record === "" ? "push" : "replace");
}

export function closeRecord() {
  go({ record: "" });
  document.getElementById("records")?.focus();
}

/** Copies a link to the current view with absolute times, optionally to a record. */
export function copyLink(record: string) {
  const address = writeState({ ...pageState(), range: pinned(), tail: false, record });
  copy(location.origin + address, "a link with fixed times");
}

export function searchAgain() {
  if (pageState().tail) tail.start(pageState().q);
  else search();
}

export function loadMore() {
  if (!pageState().tail) answer.more();
}

/** Called when the list is scrolled from or to its start: records that are being read must not move. */
export function scrolledAway(away: boolean) {
  if (pageState().tail && pageState().order === "desc" && away) tail.pause();
}
