// Requests to nodes, over connections that are kept open.

import * as http from "node:http";
import * as https from "node:https";
import type { SecureContext } from "node:tls";
import { ByteCollector } from "./bytes.js";
import type { Credentials } from "./credentials.js";
import type { Endpoint } from "./settings.js";
import { type Certificates, tlsSentence } from "./tls.js";

/** Longest body of an answer that is not a stream, in bytes. */
export const BODY_BYTES_MAX = 1 << 20;
/**
 * Unused connections are closed before the node closes them after 10 s, so that no request meets a connection that is
 * just being closed.
 */
const AGENT = { keepAlive: true, maxFreeSockets: 4, timeout: 5_000 } as const;
const USER_AGENT = "bucksaw-node/0.1.0";

/** A request. */
export interface Request {
  method: "GET" | "POST";
  url: string;
  endpoint: Endpoint;
  headers: Record<string, string | number>;
  body?: Buffer | undefined;
  signal: AbortSignal;
}

/** An answer with its whole body. */
export interface Answer {
  status: number;
  retryAfter: string | undefined;
  /** Empty if it was longer than `BODY_BYTES_MAX`. */
  body: string;
}

/** The connections of a client. */
export class Connections {
  readonly #credentials: Credentials;
  readonly #certificates: Certificates;
  readonly #http = new http.Agent(AGENT);
  #https: { agent: https.Agent; context: SecureContext } | undefined;

  constructor(credentials: Credentials, certificates: Certificates) {
    this.#credentials = credentials;
    this.#certificates = certificates;
  }

  /** What is wrong with changed files, for the end of a report: it may be the cause. */
  problems(): string {
    const found = [this.#credentials.problem, this.#certificates.problem].filter((problem) => problem !== undefined);
    return found.length === 0 ? "" : ` (a changed file cannot be used: ${found.join("; ")})`;
  }

  /** Closes all connections. Requests that run fail. */
  close(): void {
    this.#http.destroy();
    this.#https?.agent.destroy();
  }

  /** Sends a request and its body. */
  start(request: Request): http.ClientRequest {
    const { method, endpoint, body } = request;
    const headers: http.OutgoingHttpHeaders = { "user-agent": USER_AGENT, ...request.headers };
    const authorization = endpoint.authorization ?? this.#credentials.authorization();
    if (authorization !== undefined) headers.authorization = authorization;
    if (body !== undefined) headers["content-length"] = body.length;
    const started = request.url.startsWith("https:")
      ? https.request(request.url, { method, headers, agent: this.#secure(), signal: request.signal })
      : http.request(request.url, { method, headers, agent: this.#http, signal: request.signal });
    started.end(body);
    return started;
  }

  /** Connections with the current certificates. Those with previous ones end when they are unused. */
  #secure(): https.Agent {
    const context = this.#certificates.context();
    if (this.#https?.context !== context) {
      // Explicit, because the environment variable NODE_TLS_REJECT_UNAUTHORIZED changes the default.
      const agent = new https.Agent({ ...AGENT, secureContext: context, rejectUnauthorized: true });
      this.#https = { agent, context };
    }
    return this.#https.agent;
  }

  /**
   * Sends a request and waits for the whole answer, for at most `timeMs`.
   * In the background, the request does not keep the process alive.
   */
  exchange(request: Request, timeMs: number, background: boolean): Promise<Answer> {
    const started = this.start(request);
    if (background) started.on("socket", (socket) => socket.unref());
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => started.destroy(new Error(`no complete answer within ${timeMs} ms`)), timeMs);
      if (background) timer.unref();
      const fail = (error: unknown) => {
        clearTimeout(timer);
        reject(new Error(describeFailure(error)));
      };
      started.on("error", fail);
      started.on("close", () => fail(INCOMPLETE));
      started.on("response", (response) => {
        response.on("error", fail);
        collectBody(response, (body) => {
          clearTimeout(timer);
          resolve({ status: response.statusCode ?? 0, retryAfter: response.headers["retry-after"], body });
          // A node may answer before it has read the request; then the connection is of no more use.
          if (!started.writableFinished) started.destroy();
        });
      });
    });
  }
}

const INCOMPLETE = "the connection was closed before the answer was complete";

/** The reason why a request failed, for people. */
export function describeFailure(error: unknown): string {
  // Several addresses of one host were tried.
  const first: unknown = error instanceof AggregateError ? (error.errors[0] ?? error) : error;
  if (!(first instanceof Error)) return String(first);
  const code = "code" in first ? first.code : undefined;
  if (code === "ECONNRESET") return INCOMPLETE;
  const message = first.message !== "" ? first.message : first.name;
  const sentence = tlsSentence(code);
  return sentence === undefined ? message : `${sentence}: ${message}`;
}

/** Passes on the body of a complete answer, or an empty text for one that is longer than `BODY_BYTES_MAX`. */
function collectBody(response: http.IncomingMessage, done: (body: string) => void): void {
  const body = new ByteCollector();
  response.on("data", (chunk: Buffer) => {
    if (body.length + chunk.length <= BODY_BYTES_MAX) {
      body.append(chunk);
    } else {
      response.destroy();
      done("");
    }
  });
  // Not a promise: the request reports its end before promises continue.
  response.on("end", () => done(body.takeText()));
}
