import { negated, withTerm } from "../lib/expression.ts";
import { isRelative, type Range, shifted } from "../lib/ranges.ts";
import { type PageState, writeState } from "../lib/url.ts";
import { go, pageState, settleTyping } from "../state/page.ts";
import { remember } from "../state/preferences.ts";
import { answer, context, pinned, search, shownSpan, stopCounting, tail } from "../state/session.ts";
import type { Row } from "../worker/messages.ts";
import { say } from "./Announcer.tsx";
import { copy } from "./copy.ts";

/** The actions of buttons and keys. They change the state of the page, from which everything is rendered. */

/** A change of the search, which leaves the start. */
function searchFor(change: Partial<PageState>, how: "push" | "typing" = "push") {
  go({ view: "explore", ...change }, how);
}

export function setFilter(q: string, settled: boolean) {
  const { q: before, view } = pageState();
  const same = q === before && view === "explore";
  if (!same) searchFor({ q, record: "" }, "typing");
  if (!settled) return;
  settle();
  if (same) searchAgain();
}

/** Ends the typing of a search: Back returns to it from now on. */
export function settle() {
  settleTyping();
  answer.settle();
}

/** Cancels counting while the user types: its result is obsolete, and the node's cores are for the next query. */
export function pauseCounting() {
  if (!pageState().tail) stopCounting();
}

export function addTerm(term: string, without: boolean) {
  const q = withTerm(pageState().q, without ? negated(term) : term);
  remember(q);
  searchFor({ q });
  say(without ? "Excluded by the filter" : "Added to the filter");
}

export function setRange(range: Range) {
  const { view, tail } = pageState();
  go({ range, tail: range.to === "" && tail, view: view === "start" ? "start" : "explore" });
}

export function shiftRange(how: "earlier" | "later" | "wider") {
  setRange(shifted(...shownSpan(), how, Date.now()));
}

export function toggleColumn(name: string) {
  const { columns, sort } = pageState();
  if (!columns.includes(name)) go({ columns: [...columns, name] });
  else go({ columns: columns.filter((other) => other !== name), sort: sort?.name === name ? undefined : sort });
}

/** Moves a column to the place of another. */
export function moveColumn(name: string, to: number) {
  const others = pageState().columns.filter((other) => other !== name);
  const at = Math.max(0, Math.min(to, others.length));
  go({ columns: [...others.slice(0, at), name, ...others.slice(at)] }, "replace");
}

/** Sorts the loaded records by a field; without `descending`, they return to their order in time. */
export function sortBy(name: string, descending: boolean | undefined) {
  go({ sort: descending === undefined ? undefined : { name, descending } });
}

export function toggleOrder() {
  go({ order: pageState().order === "desc" ? "asc" : "desc", sort: undefined });
}

export function toggleWrap() {
  go({ wrap: !pageState().wrap });
}

export function breakDown(by: string) {
  go({ by });
}

export function setRefresh(refresh: number) {
  go({ refresh }, "replace");
}

export function toggleTail() {
  const { tail, range } = pageState();
  // Live mode shows the present.
  const open = range.to === "" && isRelative(range.from) ? range : { from: "15m", to: "" };
  searchFor(tail ? { tail: false } : { tail: true, range: open, sort: undefined });
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

/** Shows the records around one in the list, or hides them. */
export function toggleContext(row: Row | undefined) {
  if (row === undefined || row.notice === true) return;
  if (context.store.value.record?.id === row.id) context.close();
  else context.open(row);
}

/** Loads the list from a record on, in a range that has it. */
export function showInList(id: string, range: Range | undefined) {
  if (range === undefined) search(id);
  else go({ range, tail: false, sort: undefined });
}

/** Copies a link to the current view with absolute times, optionally to a record. */
export function copyLink(record: string) {
  const address = writeState({ ...pageState(), range: pinned(), tail: false, refresh: 0, record });
  copy(location.origin + address, "a link with fixed times");
}

export function searchAgain() {
  if (pageState().view !== "explore") searchFor({});
  else if (pageState().tail) tail.start(pageState().q);
  else search();
}

export function loadMore() {
  if (!pageState().tail) answer.more();
}

export function loadBefore() {
  if (!pageState().tail) answer.moreBefore();
}

/** Called when the list is scrolled from or to its start: records that are being read must not move. */
export function scrolledAway(away: boolean) {
  if (pageState().tail && pageState().order === "desc" && away) tail.pause();
}
