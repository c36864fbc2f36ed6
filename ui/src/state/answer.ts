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
  /** Whether more records may exist. */
  more: boolean;
  /** Whether a limit of the page is reached. */
  full: boolean;
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
  full: false,
  stats: undefined,
  failure: undefined,
};

/** The records of an answer as they arrive. A new query cancels the previous one. */
export class Answer {
  readonly store = new Store<AnswerState>(NOTHING);
  #cancel: () => void = () => {};
  #chars = 0;

  /** Starts a query. The shown rows stay until new ones arrive; then `onStart` is called. */
  start(query: Query, onStart: () => void) {
    this.#cancel();
    const { count } = this.store.value;
    this.store.change({ query, status: count > 0 ? "stale" : "loading", failure: undefined });
    this.#read(query, undefined, FIRST, [], onStart);
  }

  /** Continues after the last record. */
  more() {
    const { query, status, more, full, rows } = this.store.value;
    const last = rows.at(-1);
    if (query === undefined || status !== "ready" || !more || full || last === undefined) return;
    this.store.change({ status: "loading" });
    this.#read(query, last.id, Math.min(MORE, ROWS_MAX - rows.length), rows, () => {});
  }

  /** Cancels the rest of the answer. */
  stop() {
    this.#cancel();
    const { status, count } = this.store.value;
    if (status === "loading" || status === "stale") this.store.change({ status: count > 0 ? "ready" : "idle" });
  }

  #read(query: Query, after: string | undefined, limit: number, rows: Row[], onStart: () => void) {
    const { q, range, order } = query;
    const url = callUrl("query", { q, from: range.from, to: range.to, order, limit, after });
    let [fresh, got] = [after === undefined, 0];
    /** Applied with the first rows of an answer, so that the list is never shown empty in between. */
    const begin = (): Partial<AnswerState> => {
      if (!fresh) return {};
      this.#chars = 0;
      return { rows, answered: query, status: "loading", more: false, full: false, stats: undefined };
    };
    const started = () => {
      if (fresh) onStart();
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
        this.store.change({ ...begin(), count: rows.length, status: "ready", more, stats: message.stats });
        started();
      } else if (message.kind === "failed") {
        // The shown rows stay on errors: queries are invalid while the user types, and nodes may be down.
        this.store.change({ status: "failed", failure: message.failure, count: this.store.value.rows.length });
      }
    });
  }
}
