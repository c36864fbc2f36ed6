// Prints how long one logging call takes while a node receives the records, with one thread and with four.
// Usage: BUCKSAW_BIN=… npm run bench
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { cpus, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { Client } from "bucksaw";
import bucksawPino from "bucksaw/pino";
import BucksawTransport from "bucksaw/winston";
import pino from "pino";
import winston from "winston";

const CALLS = 200_000;
/** Calls between two turns of the event loop, in which the records are sent. */
const BURST = 50;
const WARM_UP = 20_000;

/** Each returns a function that logs a record, one that ends, and the counters. */
const INTERFACES = {
  "client.log": (settings) => {
    const client = new Client(settings);
    return {
      log: (index) =>
        client.log({
          message: "order paid",
          level: "info",
          attributes: { order: index, user: { id: "u7" }, ok: true },
        }),
      end: () => client.flush(),
      stats: () => client.stats(),
    };
  },
  "pino, own thread": (settings) => {
    const stream = bucksawPino(settings);
    const logger = pino({}, stream);
    return {
      log: (index) => logger.info({ order: index, user: { id: "u7" }, ok: true }, "order paid"),
      end: () => new Promise((done) => stream.flush(done)),
      stats: () => stream.stats(),
    };
  },
  "pino, worker thread": (settings) => {
    const transport = pino.transport({ target: "bucksaw/pino", options: settings });
    const logger = pino({}, transport);
    return {
      log: (index) => logger.info({ order: index, user: { id: "u7" }, ok: true }, "order paid"),
      end: async () => {
        transport.end();
        await once(transport, "close");
      },
      stats: () => undefined,
    };
  },
  winston: (settings) => {
    const transport = new BucksawTransport(settings);
    const logger = winston.createLogger({ transports: [transport] });
    return {
      log: (index) => logger.info("order paid", { order: index, user: { id: "u7" }, ok: true }),
      end: () => transport.flush(),
      stats: () => transport.stats(),
    };
  },
};

async function measure(name, endpoints, calls) {
  const { log, end, stats } = INTERFACES[name]({ endpoints, labels: { "service.name": "bench" } });
  const nanoseconds = new Float64Array(calls);
  for (let index = -WARM_UP; index < calls; index += 1) {
    const start = process.hrtime.bigint();
    log(index);
    const taken = Number(process.hrtime.bigint() - start);
    if (index >= 0) nanoseconds[index] = taken;
    if (index % BURST === 0) await nextTurn();
  }
  await end();
  return { nanoseconds, dropped: stats()?.dropped.full ?? 0 };
}

async function inThreads(name, endpoints, threads) {
  const calls = CALLS / threads;
  const results = await Promise.all(
    Array.from({ length: threads }, async () => {
      if (threads === 1) return measure(name, endpoints, calls);
      const worker = new Worker(fileURLToPath(import.meta.url), { workerData: { name, endpoints, calls } });
      const [result] = await once(worker, "message");
      return result;
    }),
  );
  const all = Float64Array.from(results.flatMap(({ nanoseconds }) => [...nanoseconds])).sort();
  const at = (share) => `${(all[Math.min(Math.floor(all.length * share), all.length - 1)] / 1000).toFixed(1)} µs`;
  const dropped = results.reduce((sum, result) => sum + result.dropped, 0);
  const columns = [name.padEnd(20), String(threads).padStart(7), at(0.5), at(0.99), at(1), String(dropped)];
  process.stdout.write(`${columns.map((column) => column.padStart(12)).join("")}\n`);
}

async function main() {
  const program = process.env.BUCKSAW_BIN ?? fileURLToPath(new URL("../../../target/release/bucksaw", import.meta.url));
  const directory = mkdtempSync(join(tmpdir(), "bucksaw-sdk-node-bench-"));
  const off = ["--listen-fast", "", "--listen-durable", "", "--listen-bulk", "", "--listen-cluster", ""];
  const node = spawn(program, ["serve", "--data-dir", directory, "--listen", "127.0.0.1:0", ...off], {
    stdio: "ignore",
  });
  try {
    const addresses = join(directory, "addresses.json");
    while (!existsSync(addresses)) {
      if (node.exitCode !== null) throw new Error(`the node ended with status ${node.exitCode}`);
      await sleep(20);
    }
    await sleep(200);
    const endpoints = `http://${JSON.parse(readFileSync(addresses, "utf8")).http}`;
    process.stdout.write(
      `${cpus().length} cores, load ${loadavg()[0].toFixed(1)}, Node.js ${process.version}, ${CALLS} calls\n`,
    );
    const columns = ["interface".padEnd(20), "threads", "p50", "p99", "max", "dropped"];
    process.stdout.write(`${columns.map((column) => column.padStart(12)).join("")}\n`);
    for (const name of Object.keys(INTERFACES)) {
      await inThreads(name, endpoints, 1);
      // One worker thread of pino serves one thread.
      if (name !== "pino, worker thread") await inThreads(name, endpoints, 4);
    }
  } finally {
    node.kill();
    await once(node, "exit");
    rmSync(directory, { recursive: true, force: true });
  }
}

if (isMainThread) {
  await main();
} else {
  const { name, endpoints, calls } = workerData;
  parentPort.postMessage(await measure(name, endpoints, calls));
}
