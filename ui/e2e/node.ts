import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { test as base, expect } from "@playwright/test";

/** The program under test: that of `cargo build`, or BUCKSAW_BIN. */
const target = process.env.CARGO_TARGET_DIR ?? resolve(import.meta.dirname, "../../target");
export const program = process.env.BUCKSAW_BIN ?? join(target, "debug/bucksaw");

/** A running node with its own ports and directory. */
export class Node {
  url = "";
  addresses: Record<string, string> = {};
  #child: ChildProcess | undefined;
  readonly #dir = mkdtempSync(join(tmpdir(), "bucksaw-e2e-"));
  readonly #more: string[];

  /** A node with additional arguments. */
  constructor(more: string[] = []) {
    this.#more = more;
  }

  /** Starts the process, at a restart on the same port. */
  async start(): Promise<this> {
    const file = join(this.#dir, "addresses.json");
    rmSync(file, { force: true });
    const listen = this.addresses.http ?? "127.0.0.1:0";
    const free = ["fast", "durable", "bulk", "cluster"].flatMap((name) => [`--listen-${name}`, "127.0.0.1:0"]);
    const args = ["serve", "--data-dir", this.#dir, "--listen", listen, ...free, "--log-level", "warn", ...this.#more];
    this.#child = spawn(program, args, { stdio: ["ignore", "ignore", "inherit"] });
    await expect
      .poll(
        async () => {
          try {
            this.addresses = JSON.parse(readFileSync(file, "utf8"));
            this.url = `http://${this.addresses.http}`;
            return (await fetch(`${this.url}/-/ready`)).status;
          } catch {
            return 0;
          }
        },
        { intervals: [20], timeout: 15_000 },
      )
      .toBe(200);
    return this;
  }

  /** Sends a signal, and waits for the exit if the signal causes one. */
  async signal(signal: "SIGKILL" | "SIGSTOP" | "SIGCONT") {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    if (signal === "SIGKILL") await ended;
  }

  async end() {
    await this.signal("SIGKILL");
    rmSync(this.#dir, { recursive: true, force: true });
  }

  /** Sends records: a string as one record per line, an array as NDJSON. */
  async send(records: string | object[], label = "app=web") {
    const json = typeof records !== "string";
    const labels = label
      .split(",")
      .map((one) => `label=${encodeURIComponent(one)}`)
      .join("&");
    const answer = await fetch(`${this.url}/api/v1/ingest?${labels}`, {
      method: "POST",
      headers: { "Content-Type": json ? "application/x-ndjson" : "text/plain" },
      body: json ? records.map((record) => JSON.stringify(record)).join("\n") : records,
    });
    expect(answer.status, await answer.text()).toBe(200);
  }

  async metric(name: string): Promise<number> {
    const text = await (await fetch(`${this.url}/metrics`)).text();
    return Number(new RegExp(`^${name} (.*)$`, "m").exec(text)?.[1]);
  }
}

/** A cluster with a replication factor of two. */
export async function cluster(size: number): Promise<Node[]> {
  const first = await new Node(["--replication-factor", "2"]).start();
  const join = ["--replication-factor", "2", "--join", first.addresses.cluster ?? ""];
  const others = await Promise.all(Array.from({ length: size - 1 }, () => new Node(join).start()));
  const all = [first, ...others];
  for (const { url } of all) {
    const alive = async () => {
      const { nodes } = await (await fetch(`${url}/api/v1/cluster`)).json();
      return nodes.filter((node: { membership: string }) => node.membership === "alive").length;
    };
    await expect.poll(alive, { intervals: [50], timeout: 15_000 }).toBe(size);
  }
  return all;
}

/** Realistic lines of the last hour: JSON of a web shop, and plain text. */
export function shopLogs(count: number, spanMs = 3_300_000): object[] {
  const end = Date.now() - 5_000;
  const routes = ["/api/cart", "/api/checkout", "/api/items", "/api/login", "/healthz"];
  const hosts = ["web-1", "web-2", "web-3", "batch-1"];
  return Array.from({ length: count }, (_, at) => {
    // A busy quarter of an hour with more errors.
    const mix = Math.imul(at, 2_654_435_761) >>> 0;
    const busy = mix % 5 < 2;
    const ago = busy ? spanMs * (0.35 + 0.15 * ((mix >>> 8) / 2 ** 24)) : spanMs * ((mix >>> 4) / 2 ** 28);
    const roll = (mix >>> 3) % 100;
    const level = roll < (busy ? 9 : 2) ? "error" : roll < (busy ? 22 : 9) ? "warn" : roll < 80 ? "info" : "debug";
    const route = routes[(mix >>> 7) % routes.length];
    const status = level === "error" ? 503 : level === "warn" ? 429 : 200;
    const messages = {
      error: "upstream timeout: payment gateway did not answer in 2000 ms",
      warn: "rate limit reached, request delayed",
      info: "request served",
      debug: "cache looked up",
    };
    return {
      time: new Date(end - ago).toISOString(),
      level,
      msg: messages[level as keyof typeof messages],
      method: route === "/api/checkout" ? "POST" : "GET",
      path: route,
      status,
      duration_ms: 3 + ((mix >>> 9) % (level === "error" ? 2_000 : 180)),
      user: { id: 1_000 + ((mix >>> 11) % 400) },
      host: hosts[(mix >>> 5) % hosts.length],
      trace: mix.toString(16).padStart(8, "0"),
    };
  });
}

/** Real logs from the directory BUCKSAW_CORPUS, whole. */
export function corpus(): { name: string; text: string }[] {
  const dir = process.env.BUCKSAW_CORPUS ?? "";
  if (dir === "") return [];
  const names = readdirSync(dir, { withFileTypes: true }).filter((entry) => entry.isFile());
  const logs = names.filter(({ name }) => !name.endsWith(".md"));
  return logs.map(({ name }) => ({ name, text: readFileSync(join(dir, name), "utf8") }));
}

/** `node` belongs to one test; `shop`, with some thousand records, is shared by a worker's tests and only read. */
export const test = base.extend<{ node: Node; errors: string[] }, { shop: Node }>({
  // biome-ignore lint/correctness/noEmptyPattern: Playwright wants a pattern here
  node: async ({}, use) => {
    const node = await new Node().start();
    await use(node);
    await node.end();
  },
  shop: [
    // biome-ignore lint/correctness/noEmptyPattern: Playwright wants a pattern here
    async ({}, use) => {
      const node = await new Node().start();
      await node.send(shopLogs(8_000), "app=shop,region=eu-west-1");
      const plain = Array.from({ length: 300 }, (_, at) =>
        at % 9 === 0
          ? `2026-11-21 10:00:${String(at % 60).padStart(2, "0")} ERROR [worker-${at % 4}] job ${at} failed: connection refused`
          : `2026-11-21 10:00:${String(at % 60).padStart(2, "0")} INFO  [worker-${at % 4}] job ${at} done in ${at * 3} ms`,
      );
      await node.send(plain.join("\n"), "app=worker,region=eu-west-1");
      await use(node);
      await node.end();
    },
    { scope: "worker" },
  ],
  // Errors on the console fail a test that does not expect them.
  errors: [
    async ({ page }, use) => {
      const errors: string[] = [];
      page.on("pageerror", (error) => errors.push(String(error)));
      page.on("console", (message) => {
        const network = /Failed to load resource/.test(message.text());
        if (message.type() === "error" && !network) errors.push(message.text());
      });
      await use(errors);
      expect(errors).toEqual([]);
    },
    { auto: true },
  ],
});

export { expect };
