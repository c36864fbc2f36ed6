import { idMs } from "../lib/ids.ts";
import { type Scope, scopesOf } from "../lib/scopes.ts";
import type { Row } from "../worker/messages.ts";
import { readLine } from "../worker/rows.ts";
import { Store } from "./store.ts";
import { call, callUrl, readRows } from "./streams.ts";

/** Records on each side at first, and how many more each time. */
const FIRST = 10;
const MORE = 50;

/** The node's limit of records on each side. */
const MOST = 1_000;

/** How far from the record its host or trace is searched. */
const SPAN_MS = 86_400_000;

export interface ContextState {
  /** The record in the middle; `undefined` without a context. */
  record: Row | undefined;
  scopes: readonly Scope[];
  scope: Scope | undefined;
  /** The record and its neighbours, oldest first. */
  rows: readonly Row[];
  /** Whether there may be earlier and later records. */
  earlier: boolean;
  later: boolean;
  loading: boolean;
  problem: string;
}

const NONE: ContextState = {
  record: undefined,
  scopes: [],
  scope: undefined,
  rows: [],
  earlier: false,
  later: false,
  loading: false,
  problem: "",
};

/** The records around one, whether they match or not. */
export class Context {
  readonly store = new Store<ContextState>(NONE);
  #abort = new AbortController();
  #want = { before: FIRST, after: FIRST };

  open(record: Row, scope?: Scope) {
    const scopes = scopesOf(record);
    this.#want = { before: FIRST, after: FIRST };
    const chosen = scope ?? scopes[0];
    this.store.change({ ...NONE, record, scopes, scope: chosen, rows: [record] });
    this.#load();
  }

  /** Loads more records on one side. */
  extend(side: "before" | "after") {
    this.#want[side] = Math.min(this.#want[side] + MORE, MOST);
    this.#load();
  }

  close() {
    this.#abort.abort();
    if (this.store.value.record !== undefined) this.store.change(NONE);
  }

  #load() {
    const { record, scope } = this.store.value;
    if (record === undefined || scope === undefined) return;
    this.#abort.abort();
    this.#abort = new AbortController();
    const { signal } = this.#abort;
    this.store.change({ loading: true, problem: "" });
    const { before, after } = this.#want;
    around(record, scope, this.#want, signal).then(
      (found) => {
        if (signal.aborted) return;
        const at = found.findIndex((row) => row.id === record.id);
        const rows = found.map((row) => (row.id === record.id ? record : { ...row, context: true as const }));
        const more = { earlier: at >= before && before < MOST, later: rows.length - at - 1 >= after && after < MOST };
        this.store.change({ rows, loading: false, ...more });
      },
      (error: unknown) => {
        if (signal.aborted) return;
        this.store.change({ loading: false, problem: error instanceof Error ? error.message : String(error) });
      },
    );
  }
}

/** A record and its neighbours in a scope, oldest first. */
async function around(
  record: Row,
  scope: Scope,
  want: { before: number; after: number },
  signal: AbortSignal,
): Promise<Row[]> {
  const { id } = record;
  if (scope.q === "") {
    const { records } = await call<{ records: unknown[] }>("context", { id, ...want }, signal);
    return records.flatMap((line) => {
      const parsed = readLine(JSON.stringify(line));
      return parsed.kind === "row" ? [parsed.row] : [];
    });
  }
  const ms = idMs(id);
  const span = { from: new Date(ms - SPAN_MS).toISOString(), to: new Date(ms + SPAN_MS).toISOString() };
  const side = (order: "asc" | "desc", limit: number) =>
    readRows(callUrl("query", { q: scope.q, ...span, order, limit, after: id }), signal);
  const [before, after] = await Promise.all([side("desc", want.before), side("asc", want.after)]);
  return [...before.reverse(), record, ...after];
}
