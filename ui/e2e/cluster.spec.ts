import type { Page } from "@playwright/test";
import { cluster, expect, Node, shopLogs, test as single } from "./node.ts";
import { lookAllWays, theme } from "./page.ts";

const test = single.extend<{ three: [Node, Node, Node] }>({
  // biome-ignore lint/correctness/noEmptyPattern: Playwright wants a pattern here
  three: async ({}, use) => {
    const nodes = await cluster(3);
    for (const node of nodes) await node.send(shopLogs(1_000), "app=shop");
    await use(nodes as [Node, Node, Node]);
    for (const node of nodes) await node.end();
  },
});

const articles = (page: Page) => page.getByRole("article");
const of = (page: Page, node: Node) => articles(page).filter({ hasText: node.addresses.http ?? "nowhere" });

test("all nodes are listed, lost ones first", async ({ page, three }) => {
  const [first, second, third] = three;
  await page.goto(`${first.url}/nodes`);
  await expect(page.getByRole("heading", { name: "3 nodes" })).toBeVisible();
  await expect(page.getByText("All is well: replication factor 2, 3 stores alive.")).toBeVisible();
  await expect(articles(page)).toHaveCount(3);
  // The queried node comes first, with more details.
  await expect(articles(page).first()).toContainText(first.addresses.http ?? "nowhere");
  await expect(articles(page).first()).toContainText("this page's node");
  await expect(articles(page).first()).toContainText("Compaction backlog");
  for (const node of [second, third]) {
    await expect(of(page, node)).toContainText("ready");
    await expect(of(page, node)).toContainText("Nothing is damaged");
    await expect(of(page, node).getByRole("link", { name: "Its page" })).toHaveAttribute("href", `${node.url}/nodes`);
  }
  await third.signal("SIGKILL");
  await expect(page.getByText("1 node has problems.")).toBeVisible({ timeout: 20_000 });
  const lost = articles(page).first();
  await expect(lost).toContainText(third.addresses.http ?? "nowhere");
  await expect(lost.getByRole("alert")).toContainText("It has been down since", { timeout: 20_000 });
  await expect(lost).toContainText("as last gossiped");
  await expect(page.getByText("2 stores alive")).toHaveCount(0);

  await second.signal("SIGKILL");
  const missing = "1 of 2 stores is alive: nothing is gathered until 1 more joins.";
  await expect(page.getByText(missing)).toBeVisible({ timeout: 20_000 });
  await second.start();
  await expect(page.getByText(missing)).toHaveCount(0, { timeout: 20_000 });
  await expect(of(page, second)).toContainText("ready");

  // A link leads to the page of another node.
  await of(page, second).getByRole("link", { name: "Its page" }).click();
  await expect(page).toHaveURL(`${second.url}/nodes`);
  await expect(articles(page)).toHaveCount(3);
});

test("a paused node is shown without a report", async ({ page, three }) => {
  const [first, second] = three;
  await page.goto(`${first.url}/nodes`);
  await expect(articles(page)).toHaveCount(3);
  await second.signal("SIGSTOP");
  await expect(articles(page).first()).toContainText(second.addresses.http ?? "nowhere", { timeout: 20_000 });
  await expect(articles(page).first().getByRole("alert")).toBeVisible();
  await second.signal("SIGCONT");
  await expect(page.getByText("All is well")).toBeVisible({ timeout: 20_000 });
});

test("live mode names nodes that are lost and that return", async ({ page, three }) => {
  const [first, , third] = three;
  const lost = third.addresses.cluster ?? "nowhere";
  await page.goto(`${first.url}/?tail=1&q=app%3Dlive`);
  const said = page.getByTestId("status");
  const notices = page.getByTestId("notice");
  await expect(said).toContainText("Live ·");
  await first.send("one\n", "app=live");
  await expect(page.getByRole("option", { name: "one" })).toBeVisible();
  await third.signal("SIGKILL");
  await expect(said).toContainText(`Live without ${lost}`, { timeout: 20_000 });
  await expect(notices).toHaveCount(1);
  await expect(notices.first()).toContainText(`${lost} `);
  await expect(notices.first()).toContainText("what it accepts is not shown until it is back");
  await first.send("two\n", "app=live");
  // The newest record is on top; the notice is between the records before and after it, and is no record.
  await expect(page.getByRole("option").first()).toContainText("two");
  await expect(page.getByRole("option").nth(1)).toHaveAttribute("data-testid", "notice");
  await expect(page.getByRole("option").nth(2)).toContainText("one");
  await expect(said).toContainText("2 records here");
  await notices.first().click({ force: true });
  await expect(page).not.toHaveURL(/record=/);
  await lookAllWays(page, "following-lost");
  // A page that starts to follow now shows it too.
  await page.reload();
  await expect(said).toContainText(`Live without ${lost}`);
  await third.start();
  await expect(notices.first()).toContainText("is followed from here on", { timeout: 20_000 });
  await third.send("three\n", "app=live");
  await expect(page.getByRole("option").first()).toContainText("three");
});

test("a cluster that lost a node looks right in both themes and widths", async ({ page, three }) => {
  test.setTimeout(120_000);
  const [first, , third] = three;
  await theme(page, "light");
  await page.goto(`${first.url}/nodes`);
  await expect(articles(page)).toHaveCount(3);
  await expect(page.locator("figure canvas")).toHaveCount(8);
  await expect(articles(page).filter({ hasText: /[1-9][\d,]* records in/ })).not.toHaveCount(0, { timeout: 20_000 });
  await lookAllWays(page, "cluster");
  await third.signal("SIGKILL");
  await expect(articles(page).first().getByRole("alert")).toContainText("It has been down", { timeout: 20_000 });
  await lookAllWays(page, "cluster-lost");
  // The report of stores a minute later, with more data than is repaired at once.
  await page.route("**/api/v1/cluster*", async (route) => {
    const answer = await route.fetch();
    const status = await answer.json();
    const pace = { bytes_per_second: 31e6, remaining_seconds: 1_250 };
    status.replication = {
      fully_replicated: false,
      under_replicated_bytes: 8.4e9,
      under_replicated_records: 0,
      lost_stores: 1,
      progress: 0.43,
      ...pace,
    };
    for (const node of status.nodes) {
      if (node.repair !== undefined) node.repair = { ...node.repair, progress: 0.43, ...pace };
      if (node.repair !== undefined && node.id === status.queried_node) node.repair.blocked_by = "no_space";
    }
    await route.fulfill({ json: status });
  });
  await expect(page.getByText("43% compared at 31.0 MB/s, about 20 min left.")).toBeVisible();
  await expect(page.getByRole("progressbar", { name: "Compared" })).toHaveCount(2);
  await expect(page.getByText("no other store has space")).toBeVisible();
  await lookAllWays(page, "cluster-restoring");
  // Requests of the page while the nodes stop may fail.
  await page.unrouteAll({ behavior: "ignoreErrors" });
});

/** The report of a node that uses half of its cores, changed. */
const headRoom = (more: object = {}) => ({
  seconds: 60,
  cores: 4,
  cpu_cores: 1.29,
  cpu_cores_predicted: 1.1,
  cpu_full_at_load_factor: 3.1,
  disk_seconds: 3_600,
  disk_growth_bytes_per_second: 24_000,
  disk_full_in_seconds: 41.5 * 86_400,
  limited_by: "CPU",
  small: [],
  ...more,
});

test("each node has its head-room, and a warning where that is little", async ({ page, three }) => {
  test.setTimeout(60_000);
  const [first, second, third] = three;
  const reports = [
    headRoom(),
    headRoom({
      cpu_cores: 3.6,
      cpu_full_at_load_factor: 1.11,
      disk_growth_bytes_per_second: 31e6,
      disk_full_in_seconds: 5.5 * 3_600,
      limited_by: "disk space",
      small: ["CPU", "disk space"],
    }),
    null,
  ];
  await page.route("**/api/v1/cluster*", async (route) => {
    const status = await (await route.fetch()).json();
    for (const node of status.nodes) {
      const at = three.findIndex((one) => one.addresses.http === node.addresses.http);
      node.head_room = reports[at];
    }
    await route.fulfill({ json: status });
  });
  await theme(page, "light");
  await page.goto(`${first.url}/nodes`);
  const well = of(page, first).getByTestId("head-room");
  await expect(well).toContainText("CPU full at 3.1× this load");
  await expect(well).toContainText("disk full in 41 days");
  await expect(well).toContainText("1.29 of 4 cores in use over 1 min; the disk fills by 24.0 kB/s over 60 minutes");
  await expect(well.getByRole("note")).toHaveCount(0);
  const busy = of(page, second).getByRole("note");
  await expect(busy).toContainText("Its CPU is nearly full: it carries 1.1× this load.");
  await expect(busy).toContainText("Its disk is full in 5 hours at this growth: then it accepts nothing.");
  await expect(of(page, third)).toContainText("Not known yet");
  await expect(page.getByText("1 node has little head-room. Replication factor 2, 3 stores alive.")).toBeVisible();
  await expect(page.locator("figure canvas")).toHaveCount(8);
  await lookAllWays(page, "head-room");
  // A node of an older version does not report it.
  reports[2] = undefined as never;
  await expect(of(page, third)).not.toContainText("Head-room");
  await page.unrouteAll({ behavior: "ignoreErrors" });
});

test("thirty nodes are on one screen, by the names of their hosts", async ({ page, three }) => {
  const [first] = three;
  let busy = -1;
  await page.route("**/api/v1/cluster*", async (route) => {
    const status = await (await route.fetch()).json();
    const own = status.nodes.find((node: { id: string }) => node.id === status.queried_node);
    status.nodes = Array.from({ length: 30 }, (_, at) => ({
      ...own,
      id: at === 0 ? own.id : `01ARZ3NDEKTSV4RRFFQ69G${String(at).padStart(4, "0")}`,
      host: `web-${at}`,
      head_room: at === busy ? headRoom({ cpu_full_at_load_factor: 1.1, small: ["CPU"] }) : headRoom(),
      addresses: { ...own.addresses, http: `web-${at}.internal:7650` },
      ...(at === 17 ? { state: "disk full" } : {}),
    }));
    await route.fulfill({ json: status });
  });
  await page.goto(`${first.url}/nodes`);
  const table = page.getByRole("table");
  const lines = table.locator("tr[data-node]");
  await expect(lines).toHaveCount(30);
  // The one with a problem comes first, and says it.
  await expect(lines.first()).toContainText("web-17");
  await expect(page.getByText("It accepts nothing: its disk is full.")).toBeVisible();
  await expect(lines.nth(4)).toContainText("CPU full at 3.1×");
  const last = await lines.last().boundingBox();
  expect((last?.y ?? 0) + (last?.height ?? 0)).toBeLessThanOrEqual(900);
  await lines.nth(4).getByRole("button").click();
  await expect(articles(page)).toHaveCount(1);
  await expect(articles(page)).toContainText("Disk free");
  await lines.nth(4).getByRole("button").click();
  busy = 21;
  await expect(page.getByText("Its CPU is nearly full: it carries 1.1× this load.")).toBeVisible();
  await lookAllWays(page, "nodes-30");
  await page.unrouteAll({ behavior: "ignoreErrors" });
});

single("a database that is away and an open listener are named", async ({ page }) => {
  // No program listens on port 9.
  const away = ["--clickhouse-sink", "clickhouse://127.0.0.1:9/logs"];
  const node = await new Node([...away, "--listen-otlp", "0.0.0.0:0", "--insecure-listen"]).start();
  try {
    await node.send("paid 17.50");
    await page.goto(`${node.url}/nodes`);
    const listed = articles(page).first();
    await expect(listed.getByRole("note")).toHaveText(
      "It lets other machines connect without authentication or encryption: otlp.",
    );
    // The store gathers after ten seconds.
    await expect(listed.getByRole("alert")).toContainText("on disk for ClickHouse since", { timeout: 30_000 });
  } finally {
    await node.end();
  }
});
