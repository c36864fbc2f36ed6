// Requests to nodes, over connections that are kept open.

import * as http from "node:http";
import * as https from "node:https";
import { ByteCollector } from "./bytes.js";
import type { Endpoint } from "./settings.js";

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
  readonly #http = new http.Agent(AGENT);
  #https: https.Agent | undefined;

  /** Closes all connections. Requests that run fail. */
  close(): void {
    this.#http.destroy();
    this.#https?.destroy();
  }

  /** Sends a request and its body. */
  start(request: Request): http.ClientRequest {
    const { method, endpoint, body } = request;
    const headers: http.OutgoingHttpHeaders = { "user-agent": USER_AGENT, ...request.headers };
    if (endpoint.authorization !== undefined) headers.authorization = endpoint.authorization;
    if (body !== undefined) headers["content-length"] = body.length;
    const started = request.url.startsWith("https:")
      ? https.request(request.url, { method, headers, agent: this.#secure(), signal: request.signal })
      : http.request(request.url, { method, headers, agent: this.#http, signal: request.signal });
    started.end(body);
    return started;
  }

  #secure(): https.Agent {
    this.#https ??= new https.Agent(AGENT);
    return this.#https;
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
  if ("code" in first && first.code === "ECONNRESET") return INCOMPLETE;
  return first.message !== "" ? first.message : first.name;
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
