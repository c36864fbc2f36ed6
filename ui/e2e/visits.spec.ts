import type { Page, Route } from "@playwright/test";
import { expect, test } from "./node.ts";
import { box, counted, open, panel, rows, search, settled, total } from "./page.ts";

/** Where an element is. */
async function topOf(page: Page, testId: string): Promise<number> {
  return (await page.getByTestId(testId).boundingBox())?.y ?? Number.NaN;
}

test("Back after typing returns to the search before, and further Backs to those before it", async ({ page, shop }) => {
  await page.goto("about:blank");
  await open(page, shop, "/?q=level%3Derror");
  await box(page).click();
  await box(page).press("End");
  await box(page).pressSequentially(" timeout", { delay: 60 });
  await box(page).press("Enter");
  await settled(page);
  await box(page).pressSequentially(" gateway", { delay: 60 });
  await expect(page).toHaveURL(/gateway/);
  await settled(page);
  // A click on a field leaves the box, and settles what was typed.
  await page.locator("[data-level=error]").click();
  await expect(box(page)).toHaveValue("level=error timeout gateway @level=error");
  const back = async (q: string) => {
    await page.goBack();
    await expect(box(page)).toHaveValue(q);
    await settled(page);
    expect(await total(page)).toBe(await counted(shop, q));
  };
  await back("level=error timeout gateway");
  await back("level=error timeout");
  await back("level=error");
  await page.goForward();
  await expect(box(page)).toHaveValue("level=error timeout");
});

test("Back from the first typed search returns to the start of the page", async ({ page, shop }) => {
  await page.goto(shop.url);
  await expect(page.getByRole("heading", { name: /streams/ })).toBeVisible();
  await box(page).click();
  await page.keyboard.type("timeout", { delay: 20 });
  // The box keeps the focus and all letters while the view changes.
  await expect(box(page)).toBeFocused();
  await expect(box(page)).toHaveValue("timeout");
  await settled(page);
  await page.goBack();
  await expect(page.getByRole("heading", { name: /streams/ })).toBeVisible();
  await expect(box(page)).toHaveValue("");
});

test("what two tabs store at the same moment is kept", async ({ page, shop, context }) => {
  await open(page, shop, "/?q=level%3Derror");
  const other = await context.newPage();
  await open(other, shop, "/?q=level%3Dwarn");
  const tabs = [page, other];
  for (const tab of tabs) {
    await tab.bringToFront();
    await tab.getByRole("button", { name: "Saved searches" }).click();
  }
  // Neither tab has heard of what the other stores when it stores itself.
  const save = async (tab: Page, name: string) => {
    await tab.getByLabel("Name of this search").fill(name);
    const form = await tab.locator("form", { has: tab.getByLabel("Name of this search") }).elementHandle();
    return () => form?.evaluate((element) => (element as HTMLFormElement).requestSubmit());
  };
  for (let round = 1; round <= 5; round++) {
    const submits = [
      await save(page, `${round} from the first tab`),
      await save(other, `${round} from the second tab`),
    ];
    await Promise.all(submits.map((submit) => submit()));
    // Each tab shows both, and a third that opens now.
    for (const tab of tabs) {
      await expect(tab.getByRole("list", { name: "Saved" }).getByRole("listitem")).toHaveCount(2 * round);
    }
  }
  await other.getByRole("button", { name: "Forget 1 from the first tab" }).click();
  await expect(page.getByRole("list", { name: "Saved" }).getByRole("listitem")).toHaveCount(9);
  await page.bringToFront();
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Theme: as the system" }).click();
  await expect(other.locator("html")).toHaveAttribute("data-theme", "dark");
  const third = await context.newPage();
  await open(third, shop);
  await third.getByRole("button", { name: "Saved searches" }).click();
  await expect(third.getByRole("list", { name: "Saved" })).toContainText("5 from the second tab");
});

test("while counting, no wrong number stands above the records", async ({ page, shop }) => {
  const held: Route[] = [];
  let holding = true;
  await page.route("**/api/v1/histogram*", (route) => (holding ? held.push(route) : route.continue()));
  await page.goto(`${shop.url}/?q=app%3Dshop`);
  await expect(rows(page).first()).toBeVisible();
  await expect.poll(() => held.length).toBe(1);
  // 300 records are loaded, so there are 300 matches at least.
  await expect(page.getByTestId("total")).toHaveText("300 matches so far");
  await expect(page.locator("[data-level]")).toHaveCount(0);
  await held.pop()?.continue();
  // Counted, but not by level: that is not the same as having no level.
  await expect(page.getByTestId("total")).toHaveText("8,000 matches");
  await expect.poll(() => held.length).toBe(1);
  await expect(page.locator("[data-level=none]")).toHaveCount(0);
  holding = false;
  await held.pop()?.continue();
  await expect(page.locator("[data-level=info]")).toBeVisible();
  await expect(page.getByText("not counted yet")).toHaveCount(0);
});

test("on a slow network the rows of the search before stay until the new ones are here", async ({ page, shop }) => {
  await open(page, shop, "/?q=app%3Dworker");
  const held: Route[] = [];
  await page.route("**/api/v1/query*", (route) => {
    held.push(route);
  });
  await box(page).fill("level=error");
  await expect.poll(() => held.length).toBe(1);
  await expect(page.getByTestId("status")).toHaveAttribute("data-status", "stale");
  await expect(rows(page).first()).toContainText("job");
  await expect(page.getByText("No record matches")).toHaveCount(0);
  await held.pop()?.continue();
  await settled(page);
  await expect(rows(page).first()).toContainText("upstream timeout");
});

test("typing is calm: nothing moves, and rows stay while a value is half typed", async ({ page, shop }) => {
  await open(page, shop, "/?q=level%3Derror");
  const [list, chart] = [await topOf(page, "scroller"), await topOf(page, "histogram")];
  await box(page).click();
  await box(page).press("End");
  await page.keyboard.type(" status=50");
  await expect(page).toHaveURL(/status%3D50(&|$)/);
  // No record has the status 50: those of before stay, and it is said.
  await expect(page.getByTestId("status")).toContainText("No record matches");
  await expect(rows(page).first()).toContainText("upstream timeout");
  expect(await topOf(page, "scroller")).toBe(list);
  await page.keyboard.type("3");
  await settled(page);
  expect(await total(page)).toBe(await counted(shop, "level=error status=503"));
  // An error has its line already.
  await page.keyboard.type(" (a OR");
  await expect(page.locator(".problem")).toBeVisible();
  await expect(rows(page).first()).toBeVisible();
  await expect(page.getByTestId("total")).toHaveAttribute("title", "of the search before");
  expect(await topOf(page, "scroller")).toBe(list);
  expect(await topOf(page, "histogram")).toBe(chart);
  // Once it is settled, an empty answer is shown as one.
  await box(page).fill("status=50");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { name: "No record matches" })).toBeVisible();
});

test("hints of the node are a quiet line that moves nothing", async ({ page, shop }) => {
  const hint = "`status >= 500` searches for three words; write `status>=500`";
  await page.route("**/api/v1/query*", async (route) => {
    const answer = await route.fetch();
    const body = (await answer.text()).replace('{"stats":{', `{"stats":{"hints":[${JSON.stringify(hint)}],`);
    await route.fulfill({ response: answer, body });
  });
  await open(page, shop, "/?q=upstream");
  const line = page.getByTestId("hints");
  await expect(line).toHaveText(hint);
  const [said, field] = [await line.boundingBox(), await box(page).boundingBox()];
  expect(said?.y).toBeGreaterThanOrEqual((field?.y ?? 0) + (field?.height ?? 0));
  const list = await topOf(page, "scroller");
  await page.unroute("**/api/v1/query*");
  await search(page, "upstream timeout");
  await expect(line).toHaveText("");
  expect(await topOf(page, "scroller")).toBe(list);
});

test("a wrong expression in live mode is said, and its rows stay", async ({ page, shop }) => {
  await page.goto(`${shop.url}/?tail=1&q=app%3Dshop`);
  await expect(rows(page).first()).toBeVisible();
  const first = await rows(page).first().innerText();
  await box(page).fill("app=shop (");
  await expect(page.locator(".problem")).toContainText("column");
  await expect(page.getByText("cannot be followed")).toBeVisible();
  await expect(page.getByText("The connection to the node is lost")).toHaveCount(0);
  await expect(rows(page).first()).toHaveText(first, { useInnerText: true });
  expect(await rows(page).count()).toBeGreaterThan(20);
  await box(page).fill("app=worker");
  await expect(rows(page).first()).toContainText("job");
  await expect(page.getByText("cannot be followed")).toHaveCount(0);
});

test("a search is repeated, but not on a hidden page", async ({ page, node }) => {
  await node.send("first\n");
  await page.clock.install();
  await page.goto(`${node.url}/?q=`);
  await expect(rows(page)).toHaveCount(1);
  await page.getByRole("button", { name: "Refresh: off" }).click();
  await page.getByRole("menuitemradio", { name: "Every 10 s" }).click();
  await expect(page).toHaveURL(/refresh=10/);
  await node.send("second\n");
  // The timer may not have been set yet when the address has changed.
  await expect(async () => {
    await page.clock.fastForward(10_500);
    await expect(rows(page)).toHaveCount(2, { timeout: 2_000 });
  }).toPass();
  const asked: string[] = [];
  page.on("request", (request) => {
    if (request.url().includes("/api/v1/query")) asked.push(request.url());
  });
  await page.evaluate(() => Object.defineProperty(document, "hidden", { value: true, configurable: true }));
  await page.clock.fastForward(60_000);
  expect(asked).toEqual([]);
});

test("the fields panel of a desk does not cover the records of a phone", async ({ page, shop }) => {
  await open(page, shop);
  const fields = page.getByRole("region", { name: "Fields" });
  await expect(fields).toBeVisible();
  await page.setViewportSize({ width: 390, height: 844 });
  await page.reload();
  await settled(page);
  await expect(fields).toHaveCount(0);
  await page.getByRole("button", { name: "Show the fields" }).click();
  await expect(fields).toBeVisible();
  await page.reload();
  await settled(page);
  await expect(fields).toHaveCount(0);
  await page.setViewportSize({ width: 1440, height: 900 });
  await expect(fields).toBeVisible();
  await rows(page).first().click();
  await expect(panel(page)).toBeVisible();
});
