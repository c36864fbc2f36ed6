import type { Page, Route } from "@playwright/test";
import { expect, test } from "./node.ts";
import { box, counted, rows, settled, total } from "./page.ts";

const streams = (page: Page) => page.getByRole("list", { name: "Streams" }).getByRole("listitem");

/** An answer with many streams, and counts for those that are asked for. */
async function manyStreams(page: Page, count: number, more: object = {}) {
  const all = Array.from({ length: count }, (_, at) => ({
    labels: { app: `app-${at}`, host: `web-${at % 50}` },
    text: `app=app-${at},host=web-${at % 50}`,
    records: 1_000_000 - at,
    bytes: 200_000_000,
  }));
  const stats = { partial: false, partial_reasons: [] };
  await page.route("**/api/v1/streams*", (route) => {
    const limit = Number(new URL(route.request().url()).searchParams.get("limit"));
    return route.fulfill({ json: { streams: all.slice(0, limit), distinct: count, stats, ...more } });
  });
  await page.route("**/api/v1/histogram*", (route) => {
    const values = new URL(route.request().url()).searchParams.getAll("value");
    const groups = Object.fromEntries(values.map((value) => [value, 7]));
    const bucket = { from: "2026-11-20T22:00:00Z", to: "2026-11-20T23:00:00Z", count: 7 * values.length, groups };
    return route.fulfill({ json: { buckets: [bucket], group_values: values, stats } });
  });
}

test("the start lists streams with their volume and errors, which lead to searches", async ({ page, shop }) => {
  await page.goto(shop.url);
  await expect(page.getByRole("heading", { name: /^2 streams/ })).toBeVisible();
  await expect(page).toHaveURL(`${shop.url}/`);
  const all = streams(page);
  await expect(all).toHaveCount(2);
  // Most records first.
  await expect(all.first()).toContainText("shop");
  await expect(all.first()).toContainText("8,000");
  await expect(all.nth(1)).toContainText("300");
  await expect(all.first().locator("svg")).toHaveAttribute("data-counted", "true");
  const errors = await counted(shop, "app=shop @level>=error");
  const percent = (100 * errors) / 8_000;
  await expect(all.first().getByTestId("errors")).toHaveText(
    `${percent < 10 ? percent.toFixed(1).replace(/\.0$/, "") : Math.round(percent)}%`,
  );
  await all.first().getByTestId("errors").getByRole("link").click();
  await expect(box(page)).toHaveValue(/app=shop region=eu-west-1 @level>=error/);
  await settled(page);
  expect(await total(page)).toBe(errors);
  await page.goBack();
  await streams(page).nth(1).getByRole("link").first().click();
  await expect(box(page)).toHaveValue("app=worker region=eu-west-1");
  await settled(page);
  expect(await total(page)).toBe(300);
  await page.getByRole("link", { name: "Streams" }).click();
  await expect(streams(page)).toHaveCount(2);
  await expect(box(page)).toHaveValue("");
});

test("ten thousand streams are as fast as ten, and each can be found", async ({ page, shop }) => {
  await manyStreams(page, 10_000);
  const asked: string[] = [];
  page.on("request", (request) => {
    if (request.url().includes("/histogram")) asked.push(request.url());
  });
  await page.goto(shop.url);
  await expect(page.getByRole("heading", { name: /^10,000 streams/ })).toBeVisible();
  await expect(streams(page).first()).toContainText("app-0");
  await expect(streams(page).first().getByTestId("errors")).toHaveText("100%");
  // Only streams in view are rendered and counted.
  expect(await streams(page).count()).toBeLessThan(60);
  expect(asked.length).toBeLessThan(10);
  await expect(page.getByText("The 200 streams with the most records.")).toBeVisible();
  await page.getByLabel("Find a stream").fill("app-9876");
  await expect(streams(page)).toHaveCount(1);
  await expect(streams(page).first()).toContainText("app-9876");
  await page.getByLabel("Find a stream").fill("web-49");
  await expect(streams(page).first()).toContainText("app-49");
  await page.getByLabel("Find a stream").fill("");
  await page.getByTestId("streams").evaluate((element) => element.scrollTo({ top: element.scrollHeight }));
  await expect(streams(page).last()).toContainText("app-9999");
  await expect(streams(page).last()).toContainText("7");
});

test("what is approximate, partial or not counted yet is said", async ({ page, shop }) => {
  const reason = "the node at 10.0.0.3:7659 is down";
  await manyStreams(page, 3, { approximate: true, stats: { partial: true, partial_reasons: [reason] } });
  const held: Route[] = [];
  await page.route("**/api/v1/histogram*", (route) => {
    held.push(route);
  });
  await page.goto(shop.url);
  await expect(page.getByText(reason)).toBeVisible();
  await expect(page.getByRole("heading", { name: /about 2,999,997 records/ })).toBeVisible();
  await expect(streams(page).first()).toContainText("≈ 1,000,000");
  await expect(streams(page).first().getByTestId("errors")).toHaveText("counting…");
  await expect.poll(() => held.length).toBe(1);
  await held.pop()?.fallback();
  // Counted exactly now; the errors are still on their way.
  await expect(streams(page).first()).not.toContainText("≈ 1,000,000");
  await expect(streams(page).first().getByTestId("errors")).toHaveText("counting…");
  await expect.poll(() => held.length).toBe(1);
  await held.pop()?.fallback();
  await expect(streams(page).first().getByTestId("errors")).toHaveText("100%");
});

test("the start shows how to send logs to this node", async ({ page, shop, context }) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.goto(shop.url);
  await page.getByRole("button", { name: "Send logs" }).click();
  const [host, port] = (shop.addresses.fast ?? "").split(":");
  await expect(page.getByText(`nc -q1 ${host} ${port}`)).toBeVisible();
  await page.getByRole("button", { name: "Copy: With curl" }).click();
  const command = await page.evaluate(() => navigator.clipboard.readText());
  expect(command).toContain(`${shop.url}/api/v1/ingest`);
});

test("labels are completed before the first search", async ({ page, shop }) => {
  await page.goto(shop.url);
  await expect(streams(page)).toHaveCount(2);
  await box(page).click();
  await page.keyboard.type("app=sh");
  await expect(page.getByRole("listbox", { name: "Completions" }).getByRole("option").first()).toContainText("shop");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Enter");
  await settled(page);
  await expect(rows(page).first()).toBeVisible();
  expect(await total(page)).toBe(8_000);
});
