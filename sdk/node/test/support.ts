// What the tests share: a stub of a node, the real program, and waiting for conditions.

import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import { createServer as createTlsServer, get as getSecurely } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { createServer as createSocketServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import type { Level, Stats } from "../dist/esm/index.js";

// Tests must not send a token of the environment.
delete process.env.BUCKSAW_TOKEN;

/** The directory of this package. */
export const PACKAGE = resolve(dirname(fileURLToPath(import.meta.url)), "..");
const REPOSITORY = resolve(PACKAGE, "../..");

/** A file of sdk/vectors. */
export function vectors<T>(name: string): T {
  return JSON.parse(readFileSync(join(REPOSITORY, "sdk/vectors", name), "utf8")) as T;
}

/** Waits until a condition holds. The time is only a bound for a test that fails. */
export async function until(what: string, holds: () => boolean | Promise<boolean>, seconds = 30): Promise<void> {
  const end = Date.now() + seconds * 1000;
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`${what}: not within ${seconds} s`);
    await new Promise((done) => setTimeout(done, 5));
  }
}

/** A request that the stub has received whole. */
export interface Received {
  method: string;
  url: string;
  headers: IncomingHttpHeaders;
  key: string;
  /** After decompression. */
  body: string;
  records: Record<string, unknown>[];
}

export type Reply = (request: Received, response: ServerResponse) => void;

/** A server that answers ingest requests one after the other by a script, and accepts all that comes after it. */
export class Stub {
  readonly requests: Received[] = [];
  readonly sockets = new Set<Socket>();
  script: Reply[] = [];
  readonly #server: Server;

  readonly #scheme: string;

  private constructor(server: Server, scheme: string) {
    this.#server = server;
    this.#scheme = scheme;
  }

  static start(...script: Reply[]): Promise<Stub> {
    return Stub.#listen(createServer(), "http", script);
  }

  /** A server that speaks TLS. With a CA of clients it demands a certificate of each. */
  static startTls(files: { certificate: string; key: string }, clientCa?: string): Promise<Stub> {
    const options = {
      cert: readFileSync(files.certificate),
      key: readFileSync(files.key),
      ...(clientCa === undefined ? {} : { ca: readFileSync(clientCa), requestCert: true }),
    };
    return Stub.#listen(createTlsServer(options), "https", []);
  }

  static async #listen(server: Server, scheme: string, script: Reply[]): Promise<Stub> {
    const stub = new Stub(server, scheme);
    stub.script = script;
    server.on("connection", (socket) => {
      stub.sockets.add(socket);
      socket.on("close", () => stub.sockets.delete(socket));
    });
    server.on("request", (request, response) => void stub.#receive(request, response));
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    return stub;
  }

  get endpoint(): string {
    return `${this.#scheme}://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((done) => this.#server.close(done));
  }

  async #receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of request) chunks.push(chunk as Buffer);
    } catch {
      return;
    }
    const raw = Buffer.concat(chunks);
    const body = (request.headers["content-encoding"] === "gzip" ? gunzipSync(raw) : raw).toString("utf8");
    const ingests = request.url?.startsWith("/api/v1/ingest") ?? false;
    const received: Received = {
      method: request.method ?? "",
      url: request.url ?? "",
      headers: request.headers,
      key: String(request.headers["idempotency-key"]),
      body,
      records: ingests
        ? body
            .split("\n")
            .filter(Boolean)
            .map((line) => JSON.parse(line))
        : [],
    };
    this.requests.push(received);
    (this.script.shift() ?? accept)(received, response);
  }
}

export const accept: Reply = (request, response) => {
  response.end(JSON.stringify({ accepted: request.records.length, rejected: 0 }));
};

export function answer(status: number, body: string, headers: Record<string, string> = {}): Reply {
  return (_, response) => response.writeHead(status, headers).end(body);
}

/** Ends the connection without an answer. */
export const reset: Reply = (_, response) => {
  response.socket?.destroy();
};

/** Ends the connection in the middle of an answer. */
export const truncate: Reply = (_, response) => {
  response.writeHead(200, { "content-length": "100" });
  response.write('{"accepted":1,"rej');
  setImmediate(() => response.socket?.destroy());
};

/** Never answers. */
export const hang: Reply = () => {};

/** Answers without end. */
export const endless: Reply = (_, response) => {
  const chunk = Buffer.alloc(64 << 10, "x");
  const more = () => {
    while (!response.destroyed && response.write(chunk)) {
      // Until the buffers of the connection are full.
    }
    response.once("drain", more);
  };
  more();
};

/** What must hold for the counters at any time. */
export function isConsistent(stats: Stats): boolean {
  const { full, refused, tooOld, tooLarge, closed } = stats.dropped;
  const sum = stats.acknowledged + stats.rejected + full + refused + tooOld + tooLarge + closed + stats.bufferedRecords;
  return stats.logged === sum;
}

/** A port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createSocketServer();
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address() as AddressInfo;
  await new Promise((done) => server.close(done));
  return port;
}

/** A temporary directory; the caller removes it. */
export function temporaryDirectory(): string {
  return mkdtempSync(join(tmpdir(), "bucksaw-sdk-node-"));
}

function program(): string {
  const candidates = process.env.BUCKSAW_BIN
    ? [process.env.BUCKSAW_BIN]
    : [join(REPOSITORY, "target/release/bucksaw"), join(REPOSITORY, "target/debug/bucksaw")];
  const found = candidates.find((path) => existsSync(path));
  if (found === undefined) {
    throw new Error(`the program is missing at ${candidates.join(" and ")}: build it, or set BUCKSAW_BIN`);
  }
  return found;
}

/** The program has this command: BUCKSAW_BIN may be of an earlier version. */
export function hasCommand(name: string): boolean {
  return spawnSync(program(), [name, "--help"], { stdio: "ignore" }).status === 0;
}

/** A node: the real program with a data directory of its own. */
export class Node {
  readonly directory = temporaryDirectory();
  #process: ChildProcess | undefined;
  #address = "";
  #tls: { ca: Buffer; cert: Buffer; key: Buffer } | undefined;
  #flags: string[] = [];

  /** Starts a node on a free port. */
  static async start(): Promise<Node> {
    const node = new Node();
    await node.run("127.0.0.1:0");
    return node;
  }

  /** Starts a node that speaks TLS and demands certificates of its clients. The program makes all of them. */
  static async startTls(): Promise<Node> {
    const node = new Node();
    const own = ["certs", "--dir", join(node.directory, "certs")];
    for (const kind of [["ca"], ["node", "127.0.0.1"], ["client", "shop"]]) {
      execFileSync(program(), [...own, ...kind], { stdio: ["ignore", "ignore", "pipe"] });
    }
    const { caFile, certificateFile, keyFile } = node.files;
    const [cert, key] = ["pem", "key"].map((kind) => join(node.directory, "certs", `127.0.0.1.${kind}`));
    node.#flags = ["--tls-cert", String(cert), "--tls-key", String(key), "--tls-client-ca", caFile];
    node.#tls = { ca: readFileSync(caFile), cert: readFileSync(certificateFile), key: readFileSync(keyFile) };
    await node.run("127.0.0.1:0");
    return node;
  }

  /** Starts a node that recognises its clients by tokens, and returns one that may write and read. */
  static async startWithToken(): Promise<{ node: Node; token: string }> {
    const node = new Node();
    const rules = join(node.directory, "auth.toml");
    const scopes = ["--scope", "ingest", "--scope", "read"];
    const token = execFileSync(program(), ["token", "add", "shop", "--auth-file", rules, ...scopes], {
      encoding: "utf8",
    });
    node.#flags = ["--auth-file", rules];
    await node.run("127.0.0.1:0");
    return { node, token };
  }

  /** Of a node with TLS: its CA, and the certificate of a client. */
  get files(): { caFile: string; certificateFile: string; keyFile: string } {
    const file = (name: string) => join(this.directory, "certs", name);
    return { caFile: file("ca.pem"), certificateFile: file("shop.pem"), keyFile: file("shop.key") };
  }

  get endpoint(): string {
    return `${this.#tls === undefined ? "http" : "https"}://${this.#address}`;
  }

  /** Starts the program again on the same port and directory. */
  async restart(): Promise<void> {
    await this.run(this.#address);
  }

  async kill(): Promise<void> {
    const process = this.#process;
    if (process === undefined || process.exitCode !== null || process.signalCode !== null) return;
    const ended = new Promise((done) => process.once("exit", done));
    process.kill("SIGKILL");
    await ended;
  }

  async stop(): Promise<void> {
    await this.kill();
    rmSync(this.directory, { recursive: true, force: true });
  }

  async run(listen: string): Promise<void> {
    const addresses = join(this.directory, "addresses.json");
    rmSync(addresses, { force: true });
    const off = ["--listen-fast", "", "--listen-durable", "", "--listen-bulk", "", "--listen-cluster", ""];
    const started = spawn(
      program(),
      ["serve", "--data-dir", this.directory, "--listen", listen, ...off, ...this.#flags],
      {
        stdio: ["ignore", "ignore", "inherit"],
        env: { ...process.env, RUST_LOG: "error" },
      },
    );
    this.#process = started;
    await until("the node is ready", async () => {
      if (started.exitCode !== null) throw new Error(`the node ended with status ${started.exitCode}`);
      if (!existsSync(addresses)) return false;
      const { http } = JSON.parse(readFileSync(addresses, "utf8") || "{}") as { http?: string };
      if (http === undefined) return false;
      this.#address = http;
      return this.#isReady();
    });
  }

  #isReady(): Promise<boolean> {
    const url = `${this.endpoint}/-/ready`;
    if (this.#tls === undefined) {
      return fetch(url).then(
        (response) => response.ok,
        () => false,
      );
    }
    return new Promise((resolve) => {
      getSecurely(url, { ...this.#tls, agent: false }, (response) => {
        response.resume();
        resolve(response.statusCode === 200);
      }).on("error", () => resolve(false));
    });
  }
}

/** Runs a program of JavaScript, and returns what it has written and its status. */
export async function runScript(
  script: string,
  environment: Record<string, string> = {},
  options: { cwd?: string; extension?: "mjs" | "cjs"; signal?: NodeJS.Signals } = {},
): Promise<{ status: number | null; stdout: string; stderr: string }> {
  const type = options.extension === "cjs" ? "commonjs" : "module";
  const child = spawn(process.execPath, [`--input-type=${type}`, "-e", script], {
    cwd: options.cwd ?? PACKAGE,
    env: { ...process.env, ...environment },
    stdio: ["ignore", "pipe", "pipe"],
    // A bound for a test that fails.
    timeout: 30_000,
    killSignal: "SIGKILL",
  });
  let stdout = "";
  let stderr = "";
  let signalled = false;
  child.stdout.on("data", (chunk) => {
    stdout += chunk;
    if (options.signal !== undefined && stdout.includes("ready") && !signalled) signalled = child.kill(options.signal);
  });
  child.stderr.on("data", (chunk) => {
    stderr += chunk;
  });
  const status = await new Promise<number | null>((done) => child.once("close", done));
  return { status, stdout, stderr };
}

export type { Level } from "../dist/esm/index.js";

/** The levels of a logging interface in levels.json. */
export function levelVectors(name: string): [string, Level | null][] {
  return Object.entries(vectors<Record<string, Record<string, Level | null>>>("levels.json")[name] ?? {});
}
