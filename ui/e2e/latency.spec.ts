import { spawn } from "node:child_process";
import { expect, type Node, program, test } from "./node.ts";
import { box, open, rows } from "./page.ts";

const megabytes = Number(process.env.BUCKSAW_LATENCY_MB ?? 0);
const file = process.env.BUCKSAW_LATENCY_FILE;

/** Words of the logs. */
const words = (
  process.env.BUCKSAW_LATENCY_WORDS ?? "timeout request user error connection GET cache order status failed"
).split(" ");

/** Sends a file, or a number of bytes of sample logs, and waits until all are stored. */
async function fill(node: Node) {
  const lines = Math.round((megabytes * 1e6) / 200);
  const sample = [program, "generate", "--rate", "0", "--size", "200", "--count", String(lines), "--seed", "7"];
  const [command = "", ...args] = file === undefined ? sample : ["cat", file];
  const make = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] });
  const send = spawn(program, ["forward", "--to", node.addresses.bulk ?? "", "--label", "app=sample"], {
    stdio: [make.stdout, "ignore", "inherit"],
  });
  expect(await new Promise((resolve) => send.once("exit", resolve))).toBe(0);
  const waiting = async () => (await (await fetch(`${node.url}/api/v1/cluster`)).json()).nodes[0].queue.segments;
  await expect.poll(waiting, { timeout: 600_000 }).toBe(0);
}

/**
 * A measurement, not run with the tests: `BUCKSAW_LATENCY_MB=1000 BUCKSAW_BIN=… npm run e2e -- latency`, or with
 * `BUCKSAW_LATENCY_FILE` and `BUCKSAW_LATENCY_WORDS` instead of the first.
 */
test("from a keystroke to the first records", async ({ page, node }) => {
  test.skip(megabytes === 0 && file === undefined, "BUCKSAW_LATENCY_MB is not set");
  test.setTimeout(1_800_000);
  await fill(node);
  await open(page, node);
  // The word without its last letter is searched first, so that the highlights distinguish the new answer.
  const times: number[] = [];
  for (let round = 0; round < 6; round += 1) {
    for (const word of words) {
      await box(page).fill(word.slice(0, -1));
      await expect(page.getByTestId("status")).toHaveAttribute("data-status", "ready");
      await page.evaluate((want) => {
        const found = () => {
          const mark = document.querySelector("#records mark");
          return mark !== null && mark.textContent === want;
        };
        const state = window as unknown as { latency: Promise<number> };
        state.latency = new Promise((resolve) => {
          document.addEventListener(
            "keydown",
            (event) => {
              const look = () => {
                if (found()) resolve(performance.now() - event.timeStamp);
                else requestAnimationFrame(look);
              };
              look();
            },
            { once: true, capture: true },
          );
        });
      }, word);
      await box(page).press(word.slice(-1));
      const shown = page.evaluate(() => (window as unknown as { latency: Promise<number> }).latency);
      const late = new Promise<undefined>((resolve) => setTimeout(resolve, 5_000, undefined));
      const ms = await Promise.race([shown, late]);
      if (ms !== undefined) times.push(ms);
    }
  }
  times.sort((a, b) => a - b);
  const at = (share: number) => times[Math.floor(times.length * share)] ?? Number.NaN;
  console.log(
    `key to first records over ${file ?? `${megabytes} MB`}, ${times.length} times: median ${at(0.5).toFixed(0)} ms, p95 ${at(0.95).toFixed(0)} ms`,
  );
  await expect(rows(page).first()).toBeVisible();
  expect(at(0.95)).toBeLessThanOrEqual(150);
});
