// Settings of a client, checked and completed when it is made.

import type { FailureHandler } from "./failures.js";

/** When a node answers a batch: its records are written, synced, or in the store. */
export type Durability = "fast" | "durable" | "bulk";

/** What happens to a record that does not fit into the buffer. */
export type WhenFull = "drop" | "block";

/** Settings of a client. Times are in milliseconds. */
export interface ClientSettings {
  /**
   * Nodes, in the order in which they are tried.
   * By default those of the environment variable `BUCKSAW_ADDR`, separated by commas, else `http://127.0.0.1:7650`.
   */
  endpoints?: string | readonly string[] | undefined;
  /** Labels of all records, such as `service.name`. One with an empty value is none. */
  labels?: Readonly<Record<string, string>> | undefined;
  /** By default `durable`. */
  durability?: Durability | undefined;
  /** A batch is sent when its encoded lines have this many bytes; by default 512 KiB. */
  batchBytes?: number | undefined;
  /** A batch is sent when it has this many records; by default 10,000. */
  batchRecords?: number | undefined;
  /** A batch is sent when its first record is this old; by default 1,000. */
  batchAgeMs?: number | undefined;
  /** Memory for the encoded lines of all records that are not yet acknowledged; by default 32 MiB. */
  bufferBytes?: number | undefined;
  /** By default `drop`. With `block`, `logAsync` and the transports wait for at most `blockTimeMs`; `log` never waits. */
  whenFull?: WhenFull | undefined;
  /** By default 100. */
  blockTimeMs?: number | undefined;
  /** Time after which an attempt counts as failed; by default 30,000. */
  requestTimeMs?: number | undefined;
  /** How long `close` and the end of the process wait for records to be acknowledged; by default 5,000. */
  closeTimeMs?: number | undefined;
  /** Sent with each request. By default the token of the environment variable `BUCKSAW_TOKEN`. */
  token?: string | undefined;
  /** A file with the token, read before each request. */
  tokenFile?: string | undefined;
  /**
   * The CAs that are trusted, in PEM format; by default those of Node.js. This and the two files below are read again when they
   * change, and make an endpoint without a scheme one with https.
   */
  caFile?: string | undefined;
  /** The certificate of the client, followed by those of intermediate CAs, in PEM format. */
  certificateFile?: string | undefined;
  /** The private key of the certificate, in PEM format, without a passphrase. */
  keyFile?: string | undefined;
  /** Allows a token, or a password of an endpoint, over plain http to other machines. */
  insecureToken?: boolean | undefined;
  /** Gets failures; without it they are written to standard error. See {@link Failure}. */
  onError?: FailureHandler | undefined;
}

/** A node. */
export interface Endpoint {
  /** Scheme, host, port and path, without a slash at the end. */
  base: string;
  /** User and password of the URL, as a header. */
  authorization: string | undefined;
}

/** Settings with all values. */
export interface ResolvedSettings {
  endpoints: readonly Endpoint[];
  labels: readonly (readonly [string, string])[];
  durability: Durability;
  batchBytes: number;
  batchRecords: number;
  batchAgeMs: number;
  bufferBytes: number;
  whenFull: WhenFull;
  blockTimeMs: number;
  requestTimeMs: number;
  closeTimeMs: number;
  onError: FailureHandler | undefined;
}

/** The longest time that timers of Node.js measure; they end at once for longer ones. */
export const TIMER_MS_MAX = 2 ** 31 - 1;
/** Memory of a batch is needed several times while it is sent, so it is bounded too. A node takes at most 16 MiB. */
const BATCH_BYTES_MAX = 8 << 20;
/** Node.js cannot hold more in one buffer on every platform. */
const BUFFER_BYTES_MAX = 2 ** 31 - 1;
/** A node accepts a body with more records in parts. */
const RECORDS_MAX = 32_768;

/** The default of `bufferBytes`. */
export const BUFFER_BYTES = 32 << 20;
/** Port of an endpoint without a scheme and a port. */
const DEFAULT_PORT = "7650";
const HAS_PORT = /^(?:[^/@]*@)?(?:\[[^\]]*\]|[^:/]*):\d/;
const DEFAULT_ENDPOINT = "127.0.0.1:7650";
/** Limits of a node. */
const LABELS_MAX = 64;
const LABEL_NAME_BYTES_MAX = 128;
const LABEL_VALUE_BYTES_MAX = 1024;
const LABEL_NAME = /^[A-Za-z_][A-Za-z0-9_.-]*$/;

/** The names of all settings; `Required` makes the compiler compare them with the interface. */
const NAMES: Readonly<Record<keyof Required<ClientSettings>, true>> = {
  endpoints: true,
  labels: true,
  durability: true,
  batchBytes: true,
  batchRecords: true,
  batchAgeMs: true,
  bufferBytes: true,
  whenFull: true,
  blockTimeMs: true,
  requestTimeMs: true,
  closeTimeMs: true,
  token: true,
  tokenFile: true,
  caFile: true,
  certificateFile: true,
  keyFile: true,
  insecureToken: true,
  onError: true,
};

/** The name is one of a setting. */
export function isSettingName(name: string): name is keyof ClientSettings {
  return Object.hasOwn(NAMES, name);
}

/** Completes settings. Throws a TypeError or RangeError that names the setting which is not valid. */
export function resolveSettings(settings: ClientSettings = {}): ResolvedSettings {
  for (const name of Object.keys(settings)) {
    if (!isSettingName(name))
      throw new TypeError(`${name}: no such setting; there are ${Object.keys(NAMES).join(", ")}`);
  }
  if (settings.onError !== undefined && typeof settings.onError !== "function") {
    throw new TypeError("onError: expected a function");
  }
  for (const name of ["token", "tokenFile", "caFile", "certificateFile", "keyFile"] as const) {
    const value: unknown = settings[name];
    if (value !== undefined && typeof value !== "string") throw new TypeError(`${name}: expected a text`);
  }
  if (settings.insecureToken !== undefined && typeof settings.insecureToken !== "boolean") {
    throw new TypeError("insecureToken: expected true or false");
  }
  return {
    endpoints: resolveEndpoints(settings),
    labels: resolveLabels(settings.labels ?? {}),
    durability: oneOf("durability", settings.durability, ["durable", "fast", "bulk"]),
    batchBytes: whole("batchBytes", settings.batchBytes, 512 << 10, 1, BATCH_BYTES_MAX),
    batchRecords: whole("batchRecords", settings.batchRecords, 10_000, 1, RECORDS_MAX),
    batchAgeMs: whole("batchAgeMs", settings.batchAgeMs, 1_000, 0, TIMER_MS_MAX),
    bufferBytes: whole("bufferBytes", settings.bufferBytes, BUFFER_BYTES, 1, BUFFER_BYTES_MAX),
    whenFull: oneOf("whenFull", settings.whenFull, ["drop", "block"]),
    blockTimeMs: whole("blockTimeMs", settings.blockTimeMs, 100, 0, TIMER_MS_MAX),
    requestTimeMs: whole("requestTimeMs", settings.requestTimeMs, 30_000, 1, TIMER_MS_MAX),
    closeTimeMs: whole("closeTimeMs", settings.closeTimeMs, 5_000, 0, TIMER_MS_MAX),
    onError: settings.onError,
  };
}

/** The first of the values is the default. */
function oneOf<T extends string>(name: string, value: T | undefined, values: readonly [T, ...T[]]): T {
  if (value === undefined) return values[0];
  if (!values.includes(value)) throw new TypeError(`${name}: expected one of ${values.join(", ")}`);
  return value;
}

function whole(name: string, value: number | undefined, otherwise: number, min: number, max: number): number {
  if (value === undefined) return otherwise;
  if (!Number.isInteger(value) || value < min || value > max) {
    throw new RangeError(`${name}: expected a whole number from ${min} to ${max}`);
  }
  return value;
}

function resolveEndpoints(settings: ClientSettings): Endpoint[] {
  const { endpoints, caFile, certificateFile } = settings;
  const scheme = caFile === undefined && certificateFile === undefined ? "http" : "https";
  const given = endpoints ?? process.env.BUCKSAW_ADDR ?? "";
  const texts = typeof given === "string" ? given.split(",") : [...given];
  const resolved = texts.map((text) => text.trim()).filter((text) => text !== "");
  if (resolved.length === 0) {
    if (endpoints !== undefined) throw new TypeError("endpoints: expected at least one");
    resolved.push(DEFAULT_ENDPOINT);
  }
  return resolved.map((text) => resolveEndpoint(text, scheme));
}

/**
 * An endpoint of a text: `http://10.0.0.1:7650`, `localhost:7650`, `localhost`, and `:7650` for this machine. The scheme is that of
 * a text without one, and with `https` none may be plain.
 */
function resolveEndpoint(text: string, scheme: "http" | "https"): Endpoint {
  let url: URL;
  let user: string;
  try {
    url = new URL(text.includes("://") ? text : `${scheme}://${text.startsWith(":") ? "127.0.0.1" : ""}${text}`);
    // The port is empty also if it is that of the scheme.
    if (!text.includes("://") && url.port === "" && !HAS_PORT.test(text)) url.port = DEFAULT_PORT;
    user = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
  } catch {
    // The text is not repeated, because it may contain a password.
    throw new TypeError("endpoints: expected URLs such as http://127.0.0.1:7650");
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") throw new TypeError("endpoints: expected http or https");
  if (scheme === "https" && url.protocol !== "https:") {
    throw new TypeError("endpoints: caFile, certificateFile and keyFile are for https");
  }
  if (url.search !== "" || url.hash !== "") throw new TypeError("endpoints: expected no query and no fragment");
  return {
    base: `${url.protocol}//${url.host}${url.pathname.replace(/\/+$/, "")}`,
    authorization: user === ":" ? undefined : `Basic ${Buffer.from(user).toString("base64")}`,
  };
}

function resolveLabels(labels: Readonly<Record<string, string>>): [string, string][] {
  const resolved: [string, string][] = [];
  for (const [name, given] of Object.entries(labels)) {
    if (!LABEL_NAME.test(name)) {
      throw new TypeError(
        `labels: expected a letter or _ followed by letters, digits, _, . and -, not ${JSON.stringify(name)}`,
      );
    }
    // A variable of the environment may be missing.
    const value = String(given ?? "").toWellFormed();
    if (name.length > LABEL_NAME_BYTES_MAX || Buffer.byteLength(value) > LABEL_VALUE_BYTES_MAX) {
      const limits = `a name may have ${LABEL_NAME_BYTES_MAX} bytes, a value ${LABEL_VALUE_BYTES_MAX}`;
      throw new RangeError(`labels: ${JSON.stringify(name.slice(0, 40))} is too long: ${limits}`);
    }
    if (value !== "") resolved.push([name, value]);
  }
  if (resolved.length > LABELS_MAX) throw new RangeError(`labels: expected at most ${LABELS_MAX}`);
  return resolved.sort(([a], [b]) => (a < b ? -1 : 1));
}

/** A value of a query string. */
export function percentEncode(value: string): string {
  const encoded = encodeURIComponent(value.toWellFormed());
  return encoded.replace(/[!'()*]/g, (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** The address that batches are sent to. */
export function ingestUrl(endpoint: Endpoint, settings: Pick<ResolvedSettings, "durability" | "labels">): string {
  const labels = settings.labels.map(([name, value]) => `&label=${percentEncode(`${name}=${value}`)}`).join("");
  const parameters = `durability=${settings.durability}&time_field=time&message_field=message`;
  return `${endpoint.base}/api/v1/ingest?${parameters}${labels}`;
}
