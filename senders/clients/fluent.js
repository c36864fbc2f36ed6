// @fluent-org/logger, with acknowledgements and a shared key: `fluent.js ADDRESS COUNT MODE KEY`.

const { FluentClient } = require("@fluent-org/logger");
const { host, port, records, state, run } = require("./common.js");

const [eventMode, sharedKey] = process.argv.slice(4);
const retry = { attempts: 100, backoff: 1, delay: 100, minDelay: 100, maxDelay: 100 };

run(async () => {
  const client = new FluentClient("shop", {
    socket: { host, port, timeout: 3000, reconnect: retry },
    ack: { ackTimeout: 5000 },
    eventMode,
    eventRetry: retry,
    sendQueueIntervalLimit: { interval: 20 },
    security: { clientHostname: "client", sharedKey },
  });
  const sent = [];
  for await (const { n, message, trace } of records()) {
    sent.push(client.emit("orders", { message, order: n, pod: { name: "web-1" }, trace }));
    state(message, { tag: "shop.orders" }, { order: String(n), "pod.name": "web-1", trace });
  }
  await Promise.all(sent);
  await client.shutdown();
});
