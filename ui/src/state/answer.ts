import { neighbour } from "../lib/ids.ts";
import type { Range } from "../lib/ranges.ts";
import type { Failure, Row, Stats } from "../worker/messages.ts";
import { Store } from "./store.ts";
import { callUrl, readStream } from "./streams.ts";

/** Maximum records in the page; for more, narrow the range or download. */
export const ROWS_MAX = 100_000;

/** Maximum characters of text in the page. */
export const CHARS_MAX = 64_000_000;

/** Records of the first request: a few screens, so that they arrive soon. */
const FIRST = 300;

/** Records of each further request, on scrolling. */
const MORE = 10_000;

export interface Query {
  q: string;
  range: Range;
  order: "desc" | "asc";
}

export interface AnswerState {
  query: Query | undefined;
  /** The query of the rows: the previous one until the new one has an answer. */
  answered: Query | undefined;
  /** `stale`: the rows belong to the previous query. */
  status: "idle" | "stale" | "loading" | "ready" | "failed";
  /** Grows in place; `count` is its valid length. */
  rows: Row[];
  count: number;
  /** Whether more records may exist, after the last and before the first. */
  more: boolean;
  moreBefore: boolean;
  /** Whether the records before the first are being read. */
  loadingBefore: boolean;
  /** The number of rows that were added before the first one. */
  prepended: number;
  /** Whether a limit of the page is reached. */
  full: boolean;
  /** Whether the query has no records, while the rows of the previous one are still shown. */
  emptied: boolean;
  stats: Stats | undefined;
  failure: Failure | undefined;
}

const NOTHING: AnswerState = {
  query: undefined,
  answered: undefined,
  status: "idle",
  rows: [],
  count: 0,
  more: false,
  moreBefore: false,
  loadingBefore: false,
  prepended: 0,
  full: false,
  emptied: false,
  stats: undefined,
  failure: undefined,
};

/** How an answer starts. */
export interface Start {
  /** The id of a record at which the list starts; records before it are loaded too. */
  anchor?: string | undefined;
  /** Whether the query is still being typed: without records, the rows of the previous one stay until {@link Answer.settle}. */
  typing?: boolean;
  /** Called when the first rows, or the end of an empty answer, have arrived. */
  onStart: () => void;
}

const OPPOSITE = { asc: "desc", desc: "asc" } as const;

/** The records of an answer as they arrive. A new query cancels the previous one. */
export class Answer {
  readonly store = new Store<AnswerState>(NOTHING);
  #cancel: () => void = () => {};
  #cancelBefore: () => void = () => {};
  #chars = 0;

  /** Starts a query. The shown rows stay until new ones arrive. */
  start(query: Query, { anchor, typing = false, onStart }: Start) {
    this.#cancel();
    this.#cancelBefore();
    const { count } = this.store.value;
    const status = count > 0 ? "stale" : "loading";
    this.store.change({ query, status, failure: undefined, emptied: false, loadingBefore: false });
    // The record itself is the first row, if it matches.
    const after = anchor === undefined ? undefined : neighbour(anchor, query.order === "desc" ? 1 : -1);
    const begun = () => {
      onStart();
      if (anchor !== undefined) this.#readBefore(anchor);
    };
    const again = anchor === undefined ? undefined : () => this.start(query, { typing, onStart });
    this.#read(query, { after, limit: FIRST, rows: [], typing, onStart: begun, again });
  }

  /** Ends the typing of the query: if it has no records, none are shown. */
  settle() {
    const { emptied, query } = this.store.value;
    if (!emptied) return;
    this.store.change({ emptied: false, rows: [], count: 0, answered: query, more: false, moreBefore: false });
  }

  /** Continues after the last record. */
  more() {
    const { query, status, more, full, rows, emptied } = this.store.value;
    const last = rows.at(-1);
    if (query === undefined || status !== "ready" || !more || full || emptied || last === undefined) return;
    this.store.change({ status: "loading" });
    this.#read(query, { after: last.id, limit: Math.min(MORE, ROWS_MAX - rows.length), rows });
  }

  /** Loads records before the first one. */
  moreBefore() {
    const { moreBefore, loadingBefore, status, full, rows, emptied } = this.store.value;
    const first = rows[0];
    if (!moreBefore || loadingBefore || status !== "ready" || full || emptied || first === undefined) return;
    this.#readBefore(first.id);
  }

  /** Cancels the rest of the answer. */
  stop() {
    this.#cancel();
    this.#cancelBefore();
    const { status, count } = this.store.value;
    this.store.change({ loadingBefore: false });
    if (status === "loading" || status === "stale") this.store.change({ status: count > 0 ? "ready" : "idle" });
  }

  #readBefore(first: string) {
    const { query } = this.store.value;
    if (query === undefined) return;
    this.store.change({ loadingBefore: true });
    const { q, range, order } = query;
    const from = { q, from: range.from, to: range.to };
    const url = callUrl("query", { ...from, order: OPPOSITE[order], limit: FIRST, after: first });
    const before: Row[] = [];
    this.#cancelBefore = readStream(url, (message) => {
      if (message.kind === "rows") before.push(...message.rows);
      if (message.kind === "failed") this.store.change({ loadingBefore: false });
      if (message.kind !== "end") return;
      const { rows, prepended } = this.store.value;
      // In place: an answer that is still being read grows the same list.
      rows.unshift(...before.reverse());
      this.store.change({
        rows,
        count: rows.length,
        prepended: prepended + before.length,
        moreBefore: before.length >= FIRST,
        loadingBefore: false,
      });
    });
  }

  #read(
    query: Query,
    how: {
      after: string | undefined;
      limit: number;
      rows: Row[];
      typing?: boolean;
      onStart?: () => void;
      again?: (() => void) | undefined;
    },
  ) {
    const { q, range, order } = query;
    const { after, limit, rows, typing = false, onStart, again } = how;
    const url = callUrl("query", { q, from: range.from, to: range.to, order, limit, after });
    let [fresh, got] = [onStart !== undefined, 0];
    /** Applied with the first rows of an answer, so that the list is never shown empty in between. */
    const begin = (): Partial<AnswerState> => {
      if (!fresh) return {};
      this.#chars = 0;
      const nothing = { more: false, moreBefore: false, full: false, emptied: false, stats: undefined };
      return { ...nothing, rows, answered: query, status: "loading", prepended: 0 };
    };
    const started = () => {
      if (fresh) onStart?.();
      fresh = false;
    };
    this.#cancel = readStream(url, (message) => {
      if (message.kind === "rows") {
        const beginning = begin();
        for (const row of message.rows) {
          rows.push(row);
          this.#chars += row.text.length;
        }
        got += message.rows.length;
        const full = rows.length >= ROWS_MAX || this.#chars >= CHARS_MAX;
        this.store.change({ ...beginning, count: rows.length, full }, fresh ? "now" : "frame");
        started();
        if (this.#chars >= CHARS_MAX) {
          this.#cancel();
          this.store.change({ status: "ready", more: true });
        }
      } else if (message.kind === "end") {
        const more = got >= limit;
        if (got === 0 && again !== undefined) {
          // Nothing matches from the record on: the list starts at its usual end.
          again();
          return;
        }
        if (fresh && got === 0 && typing && this.store.value.count > 0) {
          // A word is empty until its last letter is typed: the rows of the search before are better than none.
          this.store.change({ status: "ready", emptied: true, stats: message.stats });
        } else {
          this.store.change({ ...begin(), count: rows.length, status: "ready", more, stats: message.stats });
        }
        started();
      } else if (message.kind === "failed") {
        // The shown rows stay on errors: queries are invalid while the user types, and nodes may be down.
        this.store.change({ status: "failed", failure: message.failure, count: this.store.value.rows.length });
      }
    });
  }
}
