// The client: logs records, and reads them back.

import { Credentials } from "./credentials.js";
import { Failures } from "./failures.js";
import { Connections } from "./http.js";
import {
  type QueryAnswer,
  type QueryOptions,
  type RangeOptions,
  Reader,
  type ReadOptions,
  type TailEvent,
} from "./read.js";
import { encodeRecord, type LogRecord } from "./record.js";
import { Sender, type Stats } from "./sender.js";
import { type ClientSettings, resolveSettings } from "./settings.js";
import { Certificates } from "./tls.js";

/**
 * Sends records to Bucksaw, and reads them back.
 *
 * A client buffers records and sends them in batches in the background. It needs no connection to be made, and an idle
 * client does not keep the process alive.
 */
export class Client {
  readonly #sender: Sender;
  readonly #reader: Reader;
  readonly #connections: Connections;

  /** Throws a TypeError or RangeError if a setting is not valid. */
  constructor(settings: ClientSettings = {}) {
    const resolved = resolveSettings(settings);
    const credentials = new Credentials(settings);
    if (settings.insecureToken !== true) credentials.checkSecrecy(resolved.endpoints);
    this.#connections = new Connections(credentials, new Certificates(settings));
    this.#sender = new Sender(resolved, this.#connections, new Failures(resolved.onError));
    this.#reader = new Reader(resolved.endpoints, this.#connections);
  }

  /**
   * Buffers a record, and returns whether it is buffered rather than dropped.
   * Never throws and never waits, with any settings.
   */
  log(record: LogRecord): boolean {
    return this.#sender.offer(encodeRecord(record));
  }

  /** Like `log`, but with `whenFull: "block"` it waits for room, for at most `blockTimeMs`. Never rejects. */
  logAsync(record: LogRecord): Promise<boolean> {
    return this.#sender.offerWaiting(encodeRecord(record));
  }

  /**
   * Sends at once, and waits until all records that were logged before are acknowledged or dropped.
   * Returns whether `timeMs` sufficed. Never rejects.
   */
  flush(timeMs = 30_000): Promise<boolean> {
    return this.#sender.flush(timeMs);
  }

  /**
   * Sends what is buffered within the close time, drops and counts the rest, and closes all connections, also those that are being
   * read from.
   * Returns whether the time sufficed. Never rejects.
   */
  close(): Promise<boolean> {
    return this.#sender.close().then((sufficed) => {
      this.#reader.close();
      this.#connections.close();
      return sufficed;
    });
  }

  /** A copy of the counters. */
  stats(): Stats {
    return this.#sender.stats();
  }

  /**
   * Asks for the records that match an expression, oldest first. The request begins with the iteration, and ends if
   * the iteration ends early.
   *
   * ```js
   * for await (const record of client.query("level=error", { from: "15m" })) console.log(record.line);
   * ```
   *
   * The iteration throws a {@link ReadError}; for a partial answer after its last record.
   */
  query(expression: string, options: QueryOptions = {}): QueryAnswer {
    return this.#reader.query(expression, options);
  }

  /** The exact number of records that match an expression. Rejects with a {@link ReadError}. */
  async count(expression: string, options: RangeOptions = {}): Promise<number> {
    return this.#reader.count(expression, options);
  }

  /**
   * Records as nodes accept them, and notices, until the iteration ends or throws. A tail that is lost is an error
   * with the code `incomplete`; it does not connect again, because records between would be missing.
   */
  tail(expression: string, options: ReadOptions = {}): AsyncGenerator<TailEvent, never> {
    return this.#reader.tail(expression, options);
  }
}
