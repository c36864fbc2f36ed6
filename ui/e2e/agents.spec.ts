import { type ChildProcess, spawn } from "node:child_process";
import { appendFileSync, mkdtempSync, rmSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import type { AgentFacts } from "../src/state/agents.ts";
import { test as base, expect, type Node, program } from "./node.ts";
import { eachTheme, eachWidth, look } from "./page.ts";

/** An agent that follows one file. */
const test = base.extend<{ agent: { log: string; end: () => void } }>({
  agent: async ({ node }, use) => {
    const dir = mkdtempSync(join(tmpdir(), "bucksaw-agent-"));
    const log = join(dir, "shop.log");
    appendFileSync(log, "one\ntwo\n");
    const child = start(node, dir, log);
    await use({ log, end: () => child.kill("SIGKILL") });
    child.kill("SIGKILL");
    rmSync(dir, { recursive: true, force: true });
  },
});

function start(node: Node, dir: string, log: string): ChildProcess {
  const args = ["forward", "--to", node.addresses.fast ?? "", "--state-dir", join(dir, "state"), log];
  return spawn(program, args, { stdio: ["ignore", "ignore", "ignore"] });
}

test("the agents of a node are listed", async ({ page, node, agent }) => {
  await page.goto(`${node.url}/nodes`);
  const agents = page.getByRole("region", { name: "Agents" });
  await expect(agents.getByRole("heading", { name: "1 agent" })).toBeVisible({ timeout: 20_000 });
  const row = agents.getByRole("row").filter({ hasText: hostname() });
  await expect(row).toContainText("now");
  await expect(row.getByRole("cell").nth(1)).toHaveText("1");
  await expect(row.getByRole("cell").nth(2)).toHaveText("none");
  agent.end();
  await expect(row).toContainText("ago", { timeout: 20_000 });
});

test("agents with problems look right in both themes and widths", async ({ page, node }) => {
  const agent = (host: string, more: Partial<AgentFacts> = {}): AgentFacts => ({
    id: host.padEnd(32, "0"),
    host,
    version: "0.1.0",
    node: "01ARZ3NDEKTSV4RRFFQ69G0000",
    connected: true,
    seen_seconds: 3,
    files: 12,
    unreadable_files: 0,
    lag_bytes: 0,
    lag_seconds: 0,
    buffer_bytes: 66_000,
    gaps: 0,
    dropped_records: 0,
    acked_records: 1_000,
    ...more,
  });
  const agents = [
    agent("shop-7.internal.example.com", {
      lag_bytes: 512e6,
      lag_seconds: 754,
      buffer_bytes: 5e8,
      dropped_records: 1_031,
    }),
    agent("shop-3", { gaps: 2, unreadable_files: 1 }),
    agent("batch-1", { connected: false, seen_seconds: 340 }),
    agent("web-1", { lag_bytes: 20_400, lag_seconds: 0.4 }),
    agent("web-2"),
  ];
  await page.route("**/api/v1/agents*", (route) =>
    route.fulfill({ json: { agents, count: 1_212, unresponsive_nodes: ["01ARZ3NDEKTSV4RRFFQ69G0001"] } }),
  );
  await page.goto(`${node.url}/nodes`);
  const list = page.getByRole("region", { name: "Agents" });
  await expect(list.getByRole("heading", { name: "1,212 agents" })).toBeVisible();
  await expect(list).toContainText("512 MB, 12 min");
  await expect(list).toContainText("2 gaps");
  await expect(list).toContainText("12, 1 unreadable");
  await expect(list).toContainText("5 min ago");
  await expect(list).toContainText("1 node does not answer; its agents may be missing or old.");
  await expect(list).toContainText("1,207 more agents without problems, not listed.");
  await eachWidth(page, (width) =>
    eachTheme(page, async (colours) => {
      await list.evaluate((element) => element.scrollIntoView());
      await look(page, `agents-${colours}-${width}`);
    }),
  );
  await page.unrouteAll({ behavior: "ignoreErrors" });
});
