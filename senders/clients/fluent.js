// @fluent-org/logger for Node.js, with acknowledgements and a shared key: `fluent.js ADDRESS COUNT MODE KEY`. It does what
// `common.py` says.

const { FluentClient } = require("@fluent-org/logger");

const [address, count, eventMode, sharedKey] = process.argv.slice(2);
const [host, port] = address.split(":");
const retry = { attempts: 100, backoff: 1, delay: 100, minDelay: 100, maxDelay: 100 };
const client = new FluentClient("shop", {
  socket: { host, port: Number(port), timeout: 3000, reconnect: retry },
  ack: { ackTimeout: 5000 },
  eventMode,
  eventRetry: retry,
  sendQueueIntervalLimit: { interval: 20 },
  security: { clientHostname: "client", sharedKey },
});
client.on?.("error", () => {});
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function main() {
  const sent = [];
  for (let n = 0; n < Number(count); n++) {
    const message = `order ${n} of "Müller & Söhne" took ${(n * 7) % 1000} ms`;
    const trace = (0x4bf92f3577b34da6n + BigInt(n)).toString(16);
    sent.push(client.emit("orders", { message, order: n, pod: { name: "web-1" }, trace }));
    const attributes = { order: String(n), "pod.name": "web-1", trace };
    console.log(JSON.stringify({ line: message, labels: { tag: "shop.orders" }, attributes }));
    await pause(2);
  }
  const failed = (await Promise.allSettled(sent)).filter(({ status }) => status === "rejected");
  for (const { reason } of failed) console.error(String(reason));
  await client.shutdown();
  process.exit(failed.length ? 1 : 0);
}

main();
