// What `common.py` says, for clients of Node.js.

const [address, count] = process.argv.slice(2);
const [host, port] = address.split(":");
const LEVELS = ["INFO", "WARN", "ERROR", "DEBUG"];
// Time between two records in milliseconds, so that a node can be restarted while they are sent.
const PAUSE = 2;

/** The numbered records, one after the other. */
async function* records() {
  for (let n = 0; n < Number(count); n++) {
    const message = `order ${n} of "Müller & Söhne" took ${(n * 7) % 1000} ms, 100 % done`;
    yield { n, message, level: LEVELS[n % LEVELS.length], trace: (0x4bf92f3577b34da6n + BigInt(n)).toString(16) };
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}

/** States a record that was given to the library. */
function state(line, labels, attributes) {
  console.log(JSON.stringify({ line, labels, attributes }));
}

/** Runs a client to its end. */
function run(client) {
  client().then(
    () => process.exit(0),
    (reason) => {
      console.error(reason);
      process.exit(1);
    },
  );
}

module.exports = { host, port: Number(port), records, state, run };
