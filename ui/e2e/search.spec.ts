import { expect, test } from "./node.ts";
import { box, counted, open, rows, search, settled, total } from "./page.ts";

test("a search runs while typing, and matches are highlighted", async ({ page, shop }) => {
  await open(page, shop);
  await box(page).pressSequentially("payment gateway", { delay: 15 });
  await expect(page).toHaveURL(/q=payment\+gateway/);
  await settled(page);
  expect(await total(page)).toBe(await counted(shop, "payment gateway"));
  await expect(rows(page).first().locator("mark").first()).toHaveText("payment");
  await search(page, '"upstream timeout" status>=500');
  await expect(rows(page).first().locator("mark").first()).toHaveText("upstream timeout");
  expect(await total(page)).toBe(await counted(shop, '"upstream timeout" status>=500'));
});

test("the box completes labels, fields and values with the keyboard", async ({ page, shop }) => {
  await open(page, shop);
  await expect(page.getByRole("region", { name: "Fields" }).getByText("user.id")).toBeVisible();
  await box(page).focus();
  await page.keyboard.type("lev");
  const list = page.getByRole("listbox", { name: "Completions" });
  await expect(list.getByRole("option").first()).toContainText("level");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await expect(box(page)).toHaveValue("level=");
  await expect(list.getByRole("option").first()).toContainText("info");
  await page.keyboard.type("err");
  await page.keyboard.press("ArrowDown");
  await expect(box(page)).toHaveAttribute("aria-activedescendant", /./);
  await page.keyboard.press("Tab");
  await expect(box(page)).toHaveValue("level=error ");
  await page.keyboard.press("Enter");
  await settled(page);
  expect(await total(page)).toBe(await counted(shop, "level=error"));
  // Recent searches are suggested.
  await box(page).fill("");
  await page.keyboard.press("ArrowDown");
  await expect(list.getByRole("option").first()).toContainText("level=error");
});

test("a syntax error is shown at its column, and the records stay", async ({ page, shop }) => {
  await open(page, shop);
  await box(page).fill("level=error (a OR");
  const problem = page.locator(".problem");
  await expect(problem).toContainText("column 18: expected something to match after `OR`");
  await expect(box(page)).toHaveAttribute("aria-invalid", "true");
  await expect(rows(page).first()).toBeVisible();
  await box(page).fill("status>=high");
  await expect(problem).toContainText("column 9");
  await search(page, "level=error");
  await expect(problem).toHaveCount(0);
});

test("time ranges are selected and typed", async ({ page, shop }) => {
  await open(page, shop);
  const button = page.getByRole("button", { name: /Time range/ });
  await button.click();
  await page.getByRole("button", { name: "Last 15 minutes 15m" }).click();
  await expect(page).toHaveURL(/from=15m/);
  await settled(page);
  expect(await total(page)).toBeLessThan(await counted(shop, ""));
  await button.click();
  await page.getByLabel("From", { exact: true }).fill("nonsense");
  await page.getByRole("button", { name: "Apply" }).click();
  await expect(page.getByRole("alert")).toContainText("From is no time");
  await page.getByLabel("From", { exact: true }).fill("2h30m");
  await page.getByLabel("To", { exact: true }).fill("10m");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/from=2h30m&to=10m/);
  await expect(button).toContainText("2h30m ago – 10m ago");
  // Times without a zone are local: the browser is in Berlin.
  await button.click();
  await page.getByLabel("From", { exact: true }).fill("2026-01-20 12:00");
  await page.getByLabel("To", { exact: true }).fill("2026-01-20T13:00:00.5Z");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL((url) => url.searchParams.get("from") === "2026-01-20T11:00:00.000Z");
  expect(new URL(page.url()).searchParams.get("to")).toBe("2026-01-20T13:00:00.5Z");
});

test("an obsolete search is cancelled", async ({ page, node, errors }) => {
  await node.send("a line\n".repeat(1_000));
  await open(page, node);
  const aborted: string[] = [];
  page.on("requestfailed", (request) => aborted.push(new URL(request.url()).searchParams.get("q") ?? ""));
  // A stopped node does not answer.
  await node.signal("SIGSTOP");
  await box(page).fill("never");
  await expect(page).toHaveURL(/q=never/);
  await expect(page.getByTestId("status")).toHaveAttribute("data-status", "stale");
  await box(page).fill("line");
  await expect.poll(() => aborted).toContain("never");
  await node.signal("SIGCONT");
  await settled(page);
  expect(await total(page)).toBe(1_000);
  // Also by hand.
  await node.signal("SIGSTOP");
  await box(page).fill("other");
  await page.getByRole("button", { name: "Stop" }).click();
  await expect.poll(() => aborted).toContain("other");
  await node.signal("SIGCONT");
  await expect.poll(() => node.metric("bucksaw_query_in_flight")).toBe(0);
  expect(errors).toEqual([]);
});

test("a node that dies during a query is reported, and its return is noticed", async ({ page, node }) => {
  await node.send("one line\n".repeat(500));
  await open(page, node);
  await node.signal("SIGSTOP");
  await box(page).fill("one");
  await expect(page.getByTestId("status")).toHaveAttribute("data-status", "stale");
  await node.signal("SIGKILL");
  await expect(page.getByRole("alert")).toContainText("The node does not answer");
  // The previous rows stay.
  await expect(rows(page).first()).toBeVisible();
  await node.start();
  await page.getByRole("button", { name: "Try again" }).click();
  await settled(page);
  expect(await total(page)).toBe(500);
  await expect(page.getByRole("alert")).toHaveCount(0);
});
