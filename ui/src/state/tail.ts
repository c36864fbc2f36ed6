import { Ring } from "../lib/ring.ts";
import type { Row } from "../worker/messages.ts";
import { Store } from "./store.ts";
import { callUrl, readStream } from "./streams.ts";

/** Maximum records kept in live mode. */
export const TAIL_ROWS_MAX = 10_000;

/** Maximum records shown per second. The node reports the number of others. */
export const TAIL_RATE = 500;

/** Characters kept of a record in live mode; the node has the complete record. */
const TEXT_MAX = 4_000;

/** Earlier records shown at the start. */
const BEFORE = 200;

/** Milliseconds before a lost connection is retried. */
const RETRY_MS = [500, 1_000, 2_000, 5_000];

export interface TailState {
  /** `refused`: the expression is wrong, and the rows are those of the previous one. */
  status: "off" | "connecting" | "live" | "lost" | "refused";
  paused: boolean;
  rows: Ring<Row>;
  /** The number of notices in `rows`. */
  notices: number;
  /** Increases with each change of `rows`. */
  version: number;
  /** Records that arrived while paused. */
  waiting: number;
  /** Matching records per second, including those not shown. */
  rate: number;
  /** Matching records left out because of the rate limit. */
  skipped: number;
  /** Bytes that the node skipped because this browser was too slow. */
  skippedBytes: number;
  /** The number of lost connections, after which records may be missing. */
  gaps: number;
  /** Addresses of the nodes that are missing from the tail. */
  away: readonly string[];
  message: string;
}

const OFF: TailState = {
  status: "off",
  paused: false,
  rows: new Ring<Row>(1),
  notices: 0,
  version: 0,
  waiting: 0,
  rate: 0,
  skipped: 0,
  skippedBytes: 0,
  gaps: 0,
  away: [],
  message: "",
};

/** The change of the number of notices by an added row and a dropped one. */
function noticesBy(came: Row, went: Row | undefined): number {
  return (came.notice === true ? 1 : 0) - (went?.notice === true ? 1 : 0);
}

/** Shows new matching records with bounded memory. */
export class Tail {
  readonly store = new Store<TailState>(OFF);
  #cancel: () => void = () => {};
  #timers = new Set<ReturnType<typeof setTimeout>>();
  #waiting = new Ring<Row>(TAIL_ROWS_MAX);
  #perSecond: number[] = [];
  #thisSecond = 0;
  #tries = 0;
  #noticesMade = 0;

  /** Follows an expression. The shown rows stay until the node has accepted it. */
  start(q: string) {
    this.stop();
    this.#tries = 0;
    this.store.change({ status: "connecting", message: "" });
    this.#connect(q, true);
    const second = setInterval(this.#measure, 1_000);
    this.#timers.add(second);
  }

  stop() {
    this.#cancel();
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
    if (this.store.value.status !== "off") this.store.change({ status: "off", paused: false, rate: 0 });
  }

  pause() {
    if (!this.store.value.paused) this.store.change({ paused: true });
  }

  resume() {
    if (!this.store.value.paused) return;
    const { rows, version } = this.store.value;
    let { notices } = this.store.value;
    for (let at = 0; at < this.#waiting.length; at += 1) {
      const row = this.#waiting.at(at);
      if (row !== undefined) notices += noticesBy(row, rows.push(row));
    }
    const skipped = this.store.value.skipped + this.#waiting.dropped;
    this.#waiting.clear();
    this.store.change({ paused: false, waiting: 0, version: version + 1, notices, skipped });
  }

  /** Forgets the previous expression. */
  #clear() {
    this.#waiting.clear();
    this.#perSecond = [];
    const { version } = this.store.value;
    this.store.change({ ...OFF, status: "connecting", rows: new Ring<Row>(TAIL_ROWS_MAX), version: version + 1 });
  }

  /** `anew` if this is another expression than that of the shown rows. */
  #connect(q: string, anew: boolean) {
    // New records wait until the earlier ones are loaded, so that all are in order.
    let early: Row[] | undefined = [];
    const known = new Set<string>();
    const { rows } = this.store.value;
    if (!anew) for (let at = 0; at < rows.length; at += 1) known.add(rows.at(at)?.id ?? "");
    const settle = (before: Row[]) => {
      if (early === undefined) return;
      const fresh = [...before.reverse(), ...early].filter((row) => !known.has(row.id) && known.add(row.id));
      early = undefined;
      this.#take(fresh);
    };
    let opened = false;
    const stopTail = readStream(callUrl("tail", { q, rate: TAIL_RATE }), (message) => {
      if (message.kind === "open") {
        opened = true;
        this.#tries = 0;
        if (anew) this.#clear();
        // A new stream includes all live nodes.
        this.store.change({ status: "live", message: "", away: [] });
        const before: Row[] = [];
        const url = callUrl("query", { q, from: "1h", order: "desc", limit: BEFORE });
        const stopQuery = readStream(url, (message) => {
          if (message.kind === "rows") before.push(...message.rows);
          if (message.kind === "end" || message.kind === "failed") settle(before);
        });
        this.#cancel = () => {
          stopTail();
          stopQuery();
        };
      } else if (message.kind === "rows") {
        this.#thisSecond += message.rows.length;
        // The tail may deliver a record after the query for the earlier ones has found it.
        if (early === undefined) this.#take(message.rows.filter((row) => !known.has(row.id)));
        else if (early.length < TAIL_ROWS_MAX) early.push(...message.rows);
      } else if (message.kind === "skipped") {
        this.#thisSecond += message.records;
        const { skipped, skippedBytes } = this.store.value;
        this.store.change({ skipped: skipped + message.records, skippedBytes: skippedBytes + message.bytes }, "frame");
      } else if (message.kind === "node") {
        const others = this.store.value.away.filter((address) => address !== message.address);
        this.store.change({ away: message.lost === undefined ? others : [...others, message.address] });
        const line = this.#notice(message.address, message.lost);
        if (early === undefined) this.#take([line]);
        else early.push(line);
      } else if (message.kind === "failed" && ["refused", "unauthorized"].includes(message.failure.kind)) {
        this.store.change({ status: "refused", message: message.failure.message, rate: 0 });
      } else if (message.kind === "failed" || message.kind === "end") {
        const reason = message.kind === "failed" ? message.failure.message : "the node ended the stream";
        // A failed retry is not another loss.
        this.store.change({ status: "lost", message: reason, gaps: this.store.value.gaps + (opened ? 1 : 0) });
        const wait = RETRY_MS[Math.min(this.#tries, RETRY_MS.length - 1)] ?? 5_000;
        this.#tries += 1;
        const timer = setTimeout(() => {
          this.#timers.delete(timer);
          this.#connect(q, anew && !opened);
        }, wait);
        this.#timers.add(timer);
      }
    });
    this.#cancel = stopTail;
  }

  #take(fresh: Row[]) {
    const { rows, paused, version } = this.store.value;
    let { notices } = this.store.value;
    for (const row of fresh) {
      const kept =
        row.text.length > TEXT_MAX ? { ...row, text: row.text.slice(0, TEXT_MAX), part: true as const } : row;
      if (paused) this.#waiting.push(kept);
      else notices += noticesBy(kept, rows.push(kept));
    }
    if (paused) {
      const records = fresh.filter((row) => row.notice !== true).length;
      this.store.change({ waiting: this.store.value.waiting + records }, "frame");
    } else this.store.change({ version: version + 1, notices }, "frame");
  }

  /** A notice about the state of a node. */
  #notice(address: string, lost: string | undefined): Row {
    this.#noticesMade += 1;
    const text =
      lost === undefined
        ? `${address} is followed from here on`
        : `${address} ${lost}: what it accepts is not shown until it is back`;
    const time = new Date().toISOString();
    return {
      id: `notice-${this.#noticesMade}`,
      time,
      labels: {},
      text,
      level: undefined,
      binary: false,
      cut: false,
      notice: true,
    };
  }

  #measure = () => {
    this.#perSecond = [...this.#perSecond.slice(-4), this.#thisSecond];
    this.#thisSecond = 0;
    const rate = this.#perSecond.reduce((sum, count) => sum + count, 0) / this.#perSecond.length;
    this.store.change({ rate }, "frame");
  };
}
