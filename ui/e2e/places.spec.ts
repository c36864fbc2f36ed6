import type { Page } from "@playwright/test";
import { expect, type Node, test } from "./node.ts";
import { box, inView, open, panel, rows, settled, total } from "./page.ts";

/** The id of the only record that matches. */
async function idOf(node: Node, q: string): Promise<string> {
  const answer = await fetch(`${node.url}/api/v1/query?${new URLSearchParams({ q, from: "1h", limit: "1" })}`);
  return JSON.parse((await answer.text()).split("\n")[0] ?? "").id;
}

const row = (page: Page, id: string) => page.locator(`[data-record="${id}"]`);

test("a link to a record places it in view, among its neighbours", async ({ page, shop }) => {
  // Far below the records that are loaded first.
  const id = await idOf(shop, '"job 100 done"');
  const from = await idOf(shop, '"job 99 failed"');
  expect(from).not.toBe(id);
  await open(page, shop, `/?q=app%3Dworker&record=${id}`);
  await expect(panel(page)).toContainText("job 100 done");
  await inView(page, row(page, id));
  await expect(row(page, id)).toHaveAttribute("aria-selected", "true");
  // The neighbours on both sides are in the list.
  const index = Number(await row(page, id).getAttribute("data-index"));
  await expect(page.locator(`[data-index="${index - 1}"]`)).toContainText("job 101 done");
  await expect(page.locator(`[data-index="${index + 1}"]`)).toContainText("job 99 failed");
  // Next and previous start there.
  await panel(page).getByRole("button", { name: "Next record" }).click();
  await expect(panel(page).locator("pre")).toContainText("job 99 failed");
  await panel(page).getByRole("button", { name: "Previous record" }).click();
  await panel(page).getByRole("button", { name: "Previous record" }).click();
  await expect(panel(page).locator("pre")).toContainText("job 101 done");
  // All records are there, on both sides.
  expect(await total(page)).toBe(300);
});

test("a record deep in a long answer is in view, and those before it are loaded", async ({ page, node }) => {
  await node.send(Array.from({ length: 3_000 }, (_, at) => `line ${at}.`).join("\n"));
  const id = await idOf(node, '"line 1500."');
  for (const order of ["desc", "asc"]) {
    await open(page, node, `/?q=line&order=${order}&record=${id}`);
    await inView(page, row(page, id));
    await page.locator("#records").focus();
    await page.keyboard.press("ArrowUp");
    const before = order === "desc" ? "line 1501." : "line 1499.";
    await expect(panel(page).locator("pre")).toHaveText(before);
    await inView(page, page.locator("[aria-selected=true]"));
    // Up to the first record, without a jump.
    await page.keyboard.press("ArrowDown");
    await expect(panel(page).locator("pre")).toHaveText("line 1500.");
    await inView(page, row(page, id));
  }
});

test("opening, filtering and going back keep the record in view", async ({ page, shop }) => {
  await open(page, shop, "/?q=app%3Dshop");
  await page.getByTestId("scroller").evaluate((element) => element.scrollTo({ top: 3_000 }));
  // In view once the rows of the new place are rendered.
  const opened = rows(page).nth(15);
  await inView(page, opened);
  const id = (await opened.getAttribute("data-record")) ?? "";
  await row(page, id).click();
  await panel(page).getByRole("button", { name: "Only with this path" }).click();
  await expect(box(page)).toHaveValue(/path=/);
  await settled(page);
  await inView(page, row(page, id));
  await page.goBack();
  await expect(box(page)).toHaveValue("app=shop");
  await settled(page);
  await inView(page, row(page, id));
});

test("a record outside of the list is brought into it", async ({ page, shop }) => {
  const id = await idOf(shop, '"job 144 failed"');
  await open(page, shop, `/?q=worker&from=2026-01-01T00:00:00Z&to=2026-01-01T01:00:00Z&record=${id}`).catch(() => {});
  await expect(panel(page)).toContainText("job 144 failed");
  await panel(page).getByRole("button", { name: "Show in the list" }).click();
  await settled(page);
  await inView(page, row(page, id));
  await expect(panel(page).getByRole("button", { name: "Show in the list" })).toHaveCount(0);
});

test("context expands in place, with the stream, host or trace as its scope", async ({ page, node }) => {
  const at = (seconds: number) => new Date(Date.now() - 600_000 + seconds * 1_000).toISOString();
  const line = (n: number, host: string, trace: string) => ({
    time: at(n),
    msg: `step ${n}`,
    host,
    trace_id: trace,
  });
  await node.send(
    Array.from({ length: 60 }, (_, n) => line(n, n % 2 === 0 ? "a" : "b", n % 10 === 5 ? "deadbeef" : `t${n}`)),
    "app=one",
  );
  await node.send([{ time: at(35.5), msg: "elsewhere", host: "c", trace_id: "deadbeef" }], "app=two");
  await open(page, node, "/?q=%22step+35%22+OR+%22step+5%5C%22%22");
  const id = await idOf(node, '"step 35"');
  await row(page, id).click();
  const top = async () => (await row(page, id).boundingBox())?.y ?? 0;
  await page.keyboard.press("x");
  const bar = page.getByRole("region", { name: "Context" });
  await expect(bar).toContainText("app=one");
  const around = page.locator("[data-around]");
  await expect(around).toHaveCount(21);
  await inView(page, row(page, id));
  // Directly above and below it, in the order of the list.
  const index = Number(await row(page, id).getAttribute("data-index"));
  const text = (offset: number) => page.locator(`[data-index="${index + offset}"]`);
  await expect(text(-1)).toContainText("step 36");
  await expect(text(1)).toContainText("step 34");
  expect(await top()).toBeGreaterThan(0);
  // Next and previous visit the context.
  await page.locator("#records").focus();
  await page.keyboard.press("ArrowDown");
  await expect(panel(page).getByTestId("message")).toHaveText("step 34");
  await bar.getByRole("button", { name: "Host" }).click();
  await expect(text(1)).toContainText("step 33");
  await expect(text(-1)).toContainText("step 37");
  await bar.getByRole("button", { name: "Trace" }).click();
  await expect(around).toHaveCount(7);
  await expect(page.locator("[data-around]").filter({ hasText: "elsewhere" })).toHaveCount(1);
  await bar.getByRole("button", { name: "Stream" }).click();
  await expect(around).toHaveCount(21);
  await bar.getByRole("button", { name: "Earlier" }).click();
  await expect(bar).toContainText("46 records");
  await inView(page, row(page, id));
  await page.keyboard.press("Escape");
  await bar.getByRole("button", { name: "Close the context" }).click();
  await expect(around).toHaveCount(0);
});

test("columns scroll sideways, and are resized, moved and sorted", async ({ page, shop }) => {
  const names = ["status", "path", "method", "host", "trace", "duration_ms", "user.id", "level"];
  const columns = names.map((name) => `column=${name}`).join("&");
  await open(page, shop, `/?q=app%3Dshop&${columns}`);
  const list = page.getByTestId("scroller");
  const wide = await list.evaluate((element) => element.scrollWidth - element.clientWidth);
  expect(wide).toBeGreaterThan(100);
  // The heads scroll with their columns.
  const head = (name: string) => page.locator(`[data-column="${name}"]`);
  const left = async (name: string) => (await head(name).boundingBox())?.x ?? 0;
  const before = await left("path");
  await list.evaluate((element) => element.scrollTo({ left: 150 }));
  await expect.poll(() => left("path")).toBe(before - 150);
  await list.evaluate((element) => element.scrollTo({ left: 0 }));
  // Resized with the pointer, with keys, and remembered.
  const width = async (name: string) => (await head(name).boundingBox())?.width ?? 0;
  const edge = page.getByRole("separator", { name: "Width of the column status" });
  const place = await edge.boundingBox();
  if (place === null) throw new Error("no edge");
  await page.mouse.move(place.x + 3, place.y + 8);
  await page.mouse.down();
  await page.mouse.move(place.x - 57, place.y + 8, { steps: 4 });
  await page.mouse.up();
  await expect.poll(() => width("status")).toBe(90);
  await edge.focus();
  await page.keyboard.press("ArrowLeft");
  await expect.poll(() => width("status")).toBe(74);
  await page.reload();
  await settled(page);
  await expect.poll(() => width("status")).toBe(74);
  // Moved by the menu, and by dragging.
  await head("path").getByRole("button", { name: "Column path", exact: true }).click();
  await page.getByRole("menuitem", { name: "Move left" }).click();
  await expect.poll(async () => (await left("path")) < (await left("status"))).toBe(true);
  await head("method").dragTo(head("path"));
  await expect.poll(async () => (await left("method")) < (await left("path"))).toBe(true);
  // Sorted: the loaded records only, which is said.
  await head("duration_ms").getByRole("button", { name: "Column duration_ms", exact: true }).click();
  await page.getByRole("menuitem", { name: /descending/ }).click();
  await expect(page).toHaveURL(/sort=-duration_ms/);
  await expect(page.getByTestId("status")).toContainText("300 records loaded, sorted by duration_ms");
  const values = await rows(page).evaluateAll((list) =>
    list.slice(0, 20).map((element) => Number(/duration_ms=(\d+)/.exec(element.textContent ?? "")?.[1])),
  );
  expect(values).toEqual(values.toSorted((a, b) => b - a));
  await head("duration_ms")
    .getByRole("button", { name: /^Column duration_ms/ })
    .click();
  await page.getByRole("menuitem", { name: "By time again" }).click();
  await expect(page).not.toHaveURL(/sort/);
});

test("a match beyond the cut is shown, and matches are visited", async ({ page, node }) => {
  const far = `start ${"x".repeat(20_000)} needle ${"y".repeat(5_000)} needle end`;
  await node.send(`${far}\nshort needle\n`);
  await open(page, node, "/?q=needle&order=asc");
  const mark = rows(page).first().locator("mark");
  await expect(mark).toHaveText("needle");
  await inView(page, mark);
  const [hit, list] = [await mark.boundingBox(), await page.getByTestId("scroller").boundingBox()];
  expect((hit?.x ?? 0) + (hit?.width ?? 0)).toBeLessThan((list?.x ?? 0) + (list?.width ?? 0));
  await rows(page).first().click();
  await expect(panel(page).getByTestId("matches")).toHaveText("match 1 of 2");
  const current = panel(page).locator("pre [data-current]");
  const shown = async () => {
    const [inner, outer] = [await current.boundingBox(), await panel(page).locator("pre").boundingBox()];
    expect(inner?.y).toBeGreaterThanOrEqual(outer?.y ?? 0);
    expect(inner?.y).toBeLessThan((outer?.y ?? 0) + (outer?.height ?? 0));
  };
  await expect(shown).toPass();
  await page.keyboard.press(".");
  await expect(panel(page).getByTestId("matches")).toHaveText("match 2 of 2");
  await expect(shown).toPass();
  await page.keyboard.press(".");
  await expect(panel(page).getByTestId("matches")).toHaveText("match 1 of 2");
});

test("JSON reads well: its message first, then a tree, and the app as a chip", async ({ page, node }) => {
  const record = {
    level: "error",
    http: { path: "/pay", status: 503, headers: { "x-a": "1" } },
    msg: "\u001b[31mpayment\u001b[0m failed",
    ok: false,
  };
  await node.send([record], "app=shop");
  await open(page, node, "/?q=");
  const first = rows(page).first();
  const [chip, message, status] = [
    first.getByText("shop", { exact: true }),
    first.getByText("payment"),
    first.getByText("503"),
  ];
  const left = async (element: typeof chip) => (await element.boundingBox())?.x ?? Number.NaN;
  expect(await left(chip)).toBeLessThan(await left(message));
  expect(await left(message)).toBeLessThanOrEqual(await left(status));
  await first.click();
  const top = async (element: typeof chip) => (await element.boundingBox())?.y ?? Number.NaN;
  const said = panel(page).getByTestId("message");
  await expect(said).toHaveText("payment failed");
  const path = panel(page).getByRole("row", { name: /^path/ });
  expect(await top(said)).toBeLessThan(await top(path));
  // Branches fold, and colours tell numbers from texts.
  const colour = (name: RegExp) =>
    panel(page)
      .getByRole("row", { name })
      .locator("[data-selectable]")
      .evaluate((element) => getComputedStyle(element).color);
  expect(await colour(/^status/)).not.toBe(await colour(/^path/));
  await panel(page).getByRole("button", { name: /^http/ }).click();
  await expect(path).toHaveCount(0);
  await panel(page).getByRole("button", { name: /^http/ }).click();
  await panel(page).getByRole("button", { name: "Only with this http.headers.x-a" }).click();
  await settled(page);
  expect(await total(page)).toBe(1);
});
