import type { Page } from "@playwright/test";
import { expect, test } from "./node.ts";
import { counted, open, rows, search, settled, total } from "./page.ts";

const chart = (page: Page) => page.getByTestId("histogram");

async function levels(page: Page): Promise<Record<string, number>> {
  const shown = await page
    .locator("[data-level]")
    .evaluateAll((list) =>
      list.map(
        (item) => [item.getAttribute("data-level") ?? "", Number(item.textContent?.replace(/[^\d]/g, ""))] as const,
      ),
    );
  return Object.fromEntries(shown);
}

test("counts are exact in total and by level", async ({ page, shop }) => {
  await open(page, shop);
  await expect.poll(async () => Object.values(await levels(page)).reduce((sum, count) => sum + count, 0)).toBe(8_300);
  expect(await total(page)).toBe(await counted(shop, ""));
  const found = await levels(page);
  for (const [level, word] of [
    ["error", "ERROR"],
    ["info", "INFO"],
  ] as const) {
    expect(found[level], level).toBe(await counted(shop, `level=${level} OR ${word}`));
  }
  expect(found.warn).toBe(await counted(shop, "level=warn"));
  await search(page, "connection refused");
  await expect.poll(() => levels(page)).toEqual({ error: 34 });
});

test("a click on a level shows its records", async ({ page, shop }) => {
  await open(page, shop);
  await expect.poll(() => levels(page)).toHaveProperty("error");
  const want = (await levels(page)).error;
  await page.locator("[data-level=error]").click();
  await settled(page);
  expect(await total(page)).toBe(want);
  await expect.poll(() => levels(page)).toEqual({ error: want });
});

test("dragging and clicking zoom in, and the back button zooms out", async ({ page, shop }) => {
  await open(page, shop);
  const all = await total(page);
  const frame = await chart(page).boundingBox();
  if (frame === null) throw new Error("no chart");
  const y = frame.y + 40;
  await page.mouse.move(frame.x + 500, y);
  await page.mouse.down();
  await page.mouse.move(frame.x + 700, y, { steps: 5 });
  await page.mouse.up();
  await expect(page).toHaveURL(/from=20.*to=20/);
  await settled(page);
  const dragged = await total(page);
  expect(dragged).toBeLessThan(all);
  expect(dragged).toBeGreaterThan(0);
  const { searchParams } = new URL(page.url());
  const span = { q: "", from: searchParams.get("from") ?? "", to: searchParams.get("to") ?? "" };
  const answer = await (await fetch(`${shop.url}/api/v1/count?${new URLSearchParams(span)}`)).json();
  expect(dragged).toBe(answer.count);
  const before = page.url();
  await page.mouse.click(frame.x + 600, y);
  await expect(page).not.toHaveURL(before);
  await settled(page);
  expect(await total(page)).toBeLessThan(dragged);
  await page.goBack();
  await page.goBack();
  await settled(page);
  expect(await total(page)).toBe(all);
});

test("bars are described and zoomed with the keyboard", async ({ page, shop }) => {
  await open(page, shop);
  await chart(page).focus();
  await page.keyboard.press("End");
  await expect(chart(page)).toHaveAttribute("aria-valuetext", /\d\d:\d\d.*: [\d,]+ records?, .*info/);
  const value = await chart(page).getAttribute("aria-valuetext");
  const records = Number(/: ([\d,]+) record/.exec(value ?? "")?.[1]?.replaceAll(",", ""));
  await page.keyboard.press("ArrowLeft");
  await expect(chart(page)).not.toHaveAttribute("aria-valuetext", value ?? "");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/from=20/);
  await settled(page);
  expect(await total(page)).toBe(records);
  await page.locator("body").press("z");
  await settled(page);
  await expect.poll(() => total(page)).toBeGreaterThanOrEqual(records);
  await expect(rows(page).first()).toBeVisible();
});
