import type { Page } from "@playwright/test";
import { expect, test } from "./node.ts";
import { box, counted, open, rows, search, settled, total } from "./page.ts";

const chart = (page: Page) => page.getByTestId("histogram");

async function levels(page: Page): Promise<Record<string, number>> {
  const shown = await page
    .locator("[data-level]")
    .evaluateAll((list) =>
      list.map(
        (item) =>
          [
            item.getAttribute("data-level") ?? "",
            Number(/[\d,]+$/.exec(item.textContent ?? "")?.[0].replaceAll(",", "")),
          ] as const,
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
    expect(found[level], level).toBe(await counted(shop, `@level=${level}`));
  }
  expect(found.warn).toBe(await counted(shop, "@level=warn"));
  await search(page, "connection refused");
  await expect.poll(() => levels(page)).toEqual({ error: 34 });
});

/** Levels in places where a word in capitals or a field `level` is not enough to find them. */
const oddLevels = [
  '{"severity":"warning","msg":"one"}',
  '{"log":{"level":"Error"},"msg":"two"}',
  '{"level":50,"msg":"three"}',
  "E1121 23:10:00.000000 1 file.go:1] four",
  "fatal: five",
  "[error] six",
  "<warn> seven",
  "no level: ERRORS were none",
  "level=err eight",
  'nine {"level":"info"}',
  "plain ten",
];

test("a click on each level gives the number of the legend", async ({ page, node }) => {
  await node.send(oddLevels.join("\n"), "app=odd");
  await node.send("one\ntwo ERROR\n", "app=labelled,level=critical");
  await open(page, node);
  await expect.poll(() => levels(page)).toHaveProperty("none");
  const legend = await levels(page);
  expect(Object.values(legend).reduce((sum, count) => sum + count, 0)).toBe(13);
  expect(Object.keys(legend).length).toBeGreaterThanOrEqual(5);
  for (const [level, want] of Object.entries(legend)) {
    await page.locator(`[data-level=${level}]`).click();
    await expect(box(page)).toHaveValue(`@level=${level}`);
    await settled(page);
    expect(await total(page), level).toBe(want);
    await expect.poll(() => levels(page)).toEqual({ [level]: want });
    await page.goBack();
    await expect(box(page)).toHaveValue("");
    await expect.poll(() => levels(page)).toEqual(legend);
  }
});

test("the histogram is broken down by any field, folded, and has a logarithmic axis", async ({ page, shop }) => {
  await open(page, shop, "/?q=app%3Dshop");
  await expect(page.getByRole("region", { name: "Fields" }).getByRole("button", { name: /^status/ })).toBeVisible();
  await page.getByRole("button", { name: "Broken down by level" }).click();
  await page.getByRole("menuitemradio", { name: "status" }).click();
  await expect(page).toHaveURL(/by=status/);
  await expect.poll(() => levels(page)).toHaveProperty("503");
  const groups = await levels(page);
  expect(Object.values(groups).reduce((sum, count) => sum + count, 0)).toBe(8_000);
  expect(groups["503"]).toBe(await counted(shop, "app=shop status=503"));
  await page.locator('[data-level="503"]').click();
  await expect(box(page)).toHaveValue("app=shop status=503");
  await settled(page);
  expect(await total(page)).toBe(groups["503"]);
  await page.getByRole("button", { name: "Use a logarithmic axis" }).click();
  await expect(page.getByRole("button", { name: /Logarithmic axis/ })).toHaveAttribute("aria-pressed", "true");
  // Folding gives its place to the records, also after a reload.
  const top = async () => (await page.getByTestId("scroller").boundingBox())?.y ?? 0;
  const before = await top();
  await page.getByRole("button", { name: "Fold the histogram" }).click();
  await expect(chart(page)).toHaveCount(0);
  expect(before - (await top())).toBeGreaterThan(90);
  await page.reload();
  await settled(page);
  await expect(chart(page)).toHaveCount(0);
  await page.locator("body").press("h");
  await expect(chart(page)).toBeVisible();
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
  // The last records may be some bars ago.
  await expect(async () => {
    await page.keyboard.press("ArrowLeft");
    const text = await chart(page).getAttribute("aria-valuetext");
    expect(text).toMatch(/\d\d:\d\d.*: [\d,]+ records?, .*info/);
  }).toPass({ intervals: [20] });
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
