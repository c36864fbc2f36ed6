import { mkdirSync } from "node:fs";
import type { Page } from "@playwright/test";
import { cluster, expect, type Node, shopLogs, test as single } from "./node.ts";
import { accessible, theme } from "./page.ts";

const pictures = process.env.BUCKSAW_PICTURES ?? "test-results/pictures";
mkdirSync(pictures, { recursive: true });

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

test("all nodes are shown, and who is lost stands on top", async ({ page, three }) => {
  const [first, second, third] = three;
  await page.goto(`${first.url}/nodes`);
  await expect(page.getByRole("heading", { name: "3 nodes" })).toBeVisible();
  await expect(page.getByText("All is well: each record is kept by 2 of 3 stores.")).toBeVisible();
  await expect(articles(page)).toHaveCount(3);
  // The one whose page it is comes first, and says more.
  await expect(articles(page).first()).toContainText(first.addresses.http ?? "nowhere");
  await expect(articles(page).first()).toContainText("this page's node");
  await expect(articles(page).first()).toContainText("Compaction debt");
  for (const node of [second, third]) {
    await expect(of(page, node)).toContainText("ready");
    await expect(of(page, node)).toContainText("Nothing is damaged");
    await expect(of(page, node).getByRole("link", { name: "Its page" })).toHaveAttribute("href", `${node.url}/nodes`);
  }
  await third.signal("SIGKILL");
  await expect(page.getByText("1 node needs to be looked at.")).toBeVisible({ timeout: 20_000 });
  const lost = articles(page).first();
  await expect(lost).toContainText(third.addresses.http ?? "nowhere");
  await expect(lost.getByRole("alert")).toContainText("It has been down since", { timeout: 20_000 });
  await expect(lost).toContainText("when it was last heard of");
  await expect(page.getByText("2 of 2 stores")).toHaveCount(0);

  await second.signal("SIGKILL");
  const missing = "1 of 2 stores is there: nothing is gathered until 1 more comes.";
  await expect(page.getByText(missing)).toBeVisible({ timeout: 20_000 });
  await second.start();
  await expect(page.getByText(missing)).toHaveCount(0, { timeout: 20_000 });
  await expect(of(page, second)).toContainText("ready");

  // The page of another node is one click away.
  await of(page, second).getByRole("link", { name: "Its page" }).click();
  await expect(page).toHaveURL(`${second.url}/nodes`);
  await expect(articles(page)).toHaveCount(3);
});

test("a node that is paused says nothing", async ({ page, three }) => {
  const [first, second] = three;
  await page.goto(`${first.url}/nodes`);
  await expect(articles(page)).toHaveCount(3);
  await second.signal("SIGSTOP");
  await expect(articles(page).first()).toContainText(second.addresses.http ?? "nowhere", { timeout: 20_000 });
  await expect(articles(page).first().getByRole("alert")).toBeVisible();
  await second.signal("SIGCONT");
  await expect(page.getByText("All is well")).toBeVisible({ timeout: 20_000 });
});

test("a cluster that lost a node looks right in both themes and widths", async ({ page, three }) => {
  const [first, , third] = three;
  const look = async (name: string) => {
    for (const [width, height] of [
      [1440, 900],
      [390, 844],
    ] as const) {
      await page.setViewportSize({ width, height });
      for (const colours of ["light", "dark"] as const) {
        await theme(page, colours);
        await page.evaluate(() => new Promise((shown) => requestAnimationFrame(() => requestAnimationFrame(shown))));
        await page.screenshot({ path: `${pictures}/${name}-${colours}-${width}.png` });
        await accessible(page, `${name} ${colours} ${width}`);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth);
        expect(wide, "nothing sticks out").toBeLessThanOrEqual(width);
      }
    }
  };
  await theme(page, "light");
  await page.goto(`${first.url}/nodes`);
  await expect(articles(page)).toHaveCount(3);
  await expect(page.locator("figure canvas")).toHaveCount(8);
  await expect(articles(page).filter({ hasText: /[1-9][\d,]* records in/ })).not.toHaveCount(0, { timeout: 20_000 });
  await look("cluster");
  await third.signal("SIGKILL");
  await expect(articles(page).first().getByRole("alert")).toContainText("It has been down", { timeout: 20_000 });
  await look("cluster-lost");
});
