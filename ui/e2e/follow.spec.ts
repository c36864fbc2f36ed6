import { expect, test } from "./node.ts";
import { counted, open, panel, rows, settled, total } from "./page.ts";

test("new records appear, are held back while paused, and are counted", async ({ page, node }) => {
  await node.send("before 1\nbefore 2\n");
  await open(page, node);
  await page.getByRole("button", { name: "Live" }).click();
  await expect(page).toHaveURL(/tail=1/);
  await expect(page.getByTestId("status")).toContainText("Live");
  await expect(rows(page).first()).toContainText("before 2");
  await node.send("new ERROR 1\n");
  await expect(rows(page).first()).toContainText("new ERROR 1");
  await page.getByRole("button", { name: "Pause" }).click();
  await node.send("while paused 1\nwhile paused 2\n");
  await expect(page.getByTestId("waiting")).toContainText("2 new records");
  await expect(rows(page).first()).toContainText("new ERROR 1");
  // Counting continues.
  await expect.poll(() => total(page)).toBe(5);
  await page.keyboard.press("p");
  await expect(rows(page).first()).toContainText("while paused 2");
  await expect(page.locator("[data-level=error]")).toContainText("1");
  await page.getByRole("button", { name: "Live" }).click();
  await settled(page);
  expect(await total(page)).toBe(5);
});

test("the fields of the first new records appear with them", async ({ page, node }) => {
  await page.goto(`${node.url}/?tail=1&q=wanted`);
  const fields = page.getByRole("region", { name: "Fields" });
  await expect(fields).toContainText("No record matches");
  await node.send("wanted colour=green\n");
  await expect(rows(page).first()).toContainText("wanted colour=green");
  // With the next count, before the fields are requested again.
  await expect(fields.getByRole("button", { name: /^colour/ })).toBeVisible();
});

test("records above the rate limit are counted and reported", async ({ page, node }) => {
  await page.goto(`${node.url}/?tail=1&q=wanted`);
  await expect(page.getByTestId("status")).toContainText("Live");
  const text = Array.from({ length: 20_000 }, (_, at) => `wanted ${at}\nother ${at}`).join("\n");
  await node.send(text);
  await expect(page.getByTestId("skipped")).toContainText("matching records not shown");
  await expect.poll(() => total(page)).toBe(20_000);
  // Shown and skipped records add up to all.
  const here = async () =>
    Number(/([\d,]+) records here/.exec(await page.getByTestId("status").innerText())?.[1]?.replaceAll(",", ""));
  const skipped = async () =>
    Number(/([\d,]+) matching/.exec(await page.getByTestId("skipped").innerText())?.[1]?.replaceAll(",", ""));
  await expect.poll(async () => (await here()) + (await skipped())).toBe(20_000);
  expect(await counted(node, "wanted")).toBe(20_000);
});

test("live mode reconnects, and reports that records may be missing", async ({ page, node }) => {
  await node.send("first\n");
  await open(page, node);
  await page.keyboard.press("t");
  await expect(page.getByTestId("status")).toContainText("Live");
  await node.signal("SIGKILL");
  await expect(page.getByRole("alert")).toContainText("connection to the node is lost");
  // Failed retries are not further losses.
  await page.waitForEvent("requestfailed", (request) => request.url().includes("/api/v1/tail"));
  await node.start();
  await expect(page.getByText("The connection was lost once")).toBeVisible();
  await node.send("after\n");
  await expect(rows(page).first()).toContainText("after");
  await expect(rows(page)).toHaveCount(2);
});

test("long records are kept in part, and opened completely", async ({ page, node }) => {
  await node.send("first\n");
  await open(page, node);
  await page.keyboard.press("t");
  await expect(rows(page).first()).toContainText("first");
  const long = `begin ${"x".repeat(9_000)} end`;
  await node.send(`${long}\n`);
  await expect(rows(page).first()).toContainText("whole when it is opened");
  await rows(page).first().click();
  await expect(panel(page).locator("pre")).toHaveText(long);
});

test("scrolling down pauses live mode", async ({ page, node }) => {
  await node.send(Array.from({ length: 150 }, (_, at) => `line ${at}`).join("\n"));
  await open(page, node);
  await page.keyboard.press("t");
  await expect(rows(page).first()).toContainText("line 149");
  await page.getByTestId("scroller").evaluate((element) => element.scrollTo({ top: 400 }));
  await expect(page.getByTestId("waiting")).toBeVisible();
  await node.send("later\n");
  await expect(page.getByTestId("waiting")).toContainText("1 new record");
});
