import type { Range } from "../lib/ranges.ts";
import type { Failure, Row, Stats } from "../worker/messages.ts";
import { Store } from "./store.ts";
import { callUrl, readStream } from "./streams.ts";

/** Records that the page keeps; who wants more narrows the time, or downloads. */
export const ROWS_MAX = 100_000;

/** Characters of text that the page keeps. */
export const CHARS_MAX = 64_000_000;

/** Records that are asked for first: some screens, so that they are here soon. */
const FIRST = 300;

/** Records that are asked for when somebody scrolls on. */
const MORE = 10_000;

export interface Question {
  q: string;
  range: Range;
  order: "desc" | "asc";
}

export interface AnswerState {
  question: Question | undefined;
  /** The question that the rows answer: the one before, while the new one has no answer yet. */
  answered: Question | undefined;
  /** `stale`: what is shown is the answer to the question before. */
  status: "idle" | "stale" | "loading" | "ready" | "failed";
  /** Grows in place; `count` says how much of it there is. */
  rows: Row[];
  count: number;
  /** Whether there may be more records. */
  more: boolean;
  /** Whether the page keeps as much as it does. */
  full: boolean;
  stats: Stats | undefined;
  failure: Failure | undefined;
}

const NOTHING: AnswerState = {
  question: undefined,
  answered: undefined,
  status: "idle",
  rows: [],
  count: 0,
  more: false,
  full: false,
  stats: undefined,
  failure: undefined,
};

/** The records that a question is answered with, as they come in. A new question cancels the one before. */
export class Answer {
  readonly store = new Store<AnswerState>(NOTHING);
  #cancel: () => void = () => {};
  #chars = 0;

  /** Asks. What was shown stays until there is something to show in its place. `begun` is called then. */
  ask(question: Question, begun: () => void) {
    this.#cancel();
    const { count } = this.store.value;
    this.store.change({ question, status: count > 0 ? "stale" : "loading", failure: undefined });
    this.#read(question, undefined, FIRST, [], begun);
  }

  /** Goes on behind the last record. */
  more() {
    const { question, status, more, full, rows } = this.store.value;
    const last = rows.at(-1);
    if (question === undefined || status !== "ready" || !more || full || last === undefined) return;
    this.store.change({ status: "loading" });
    this.#read(question, last.id, Math.min(MORE, ROWS_MAX - rows.length), rows, () => {});
  }

  /** Lets go of what is still to come. */
  stop() {
    this.#cancel();
    const { status, count } = this.store.value;
    if (status === "loading" || status === "stale") this.store.change({ status: count > 0 ? "ready" : "idle" });
  }

  #read(question: Question, after: string | undefined, limit: number, rows: Row[], begun: () => void) {
    const { q, range, order } = question;
    const url = callUrl("query", { q, from: range.from, to: range.to, order, limit, after });
    let [fresh, got] = [after === undefined, 0];
    /** What changes when the first of an answer is here: all at once, so that nothing is ever shown empty on its way. */
    const begin = (): Partial<AnswerState> => {
      if (!fresh) return {};
      this.#chars = 0;
      return { rows, answered: question, status: "loading", more: false, full: false, stats: undefined };
    };
    const began = () => {
      if (fresh) begun();
      fresh = false;
    };
    this.#cancel = readStream(url, (told) => {
      if (told.kind === "rows") {
        const beginning = begin();
        for (const row of told.rows) {
          rows.push(row);
          this.#chars += row.text.length;
        }
        got += told.rows.length;
        const full = rows.length >= ROWS_MAX || this.#chars >= CHARS_MAX;
        this.store.change({ ...beginning, count: rows.length, full }, fresh ? "now" : "frame");
        began();
        if (this.#chars >= CHARS_MAX) {
          this.#cancel();
          this.store.change({ status: "ready", more: true });
        }
      } else if (told.kind === "end") {
        const more = got >= limit;
        this.store.change({ ...begin(), count: rows.length, status: "ready", more, stats: told.stats });
        began();
      } else if (told.kind === "failed") {
        // Wrong questions are asked while somebody types, and nodes go away: what is shown stays.
        this.store.change({ status: "failed", failure: told.failure, count: this.store.value.rows.length });
      }
    });
  }
}
