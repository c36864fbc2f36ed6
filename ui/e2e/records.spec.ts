import type { FieldFacts } from "../src/lib/complete.ts";
import { fieldTerm } from "../src/lib/expression.ts";
import { fieldsOf } from "../src/lib/fields.ts";
import { existsTerm, recordTerm, valueTerm } from "../src/lib/terms.ts";
import { corpus, expect, Node, shopLogs, test } from "./node.ts";
import { box, counted, open, panel, rows, search, settled, total } from "./page.ts";

test("a record opens with its fields, which become filters and columns", async ({ page, shop }) => {
  await open(page, shop, "/?q=level%3Derror+app%3Dshop");
  await rows(page).nth(2).click();
  await expect(panel(page)).toContainText("error");
  const row = panel(page).getByRole("row", { name: /^status/ });
  await expect(row).toContainText("503");
  await panel(page).getByRole("button", { name: "A column for status" }).click();
  await expect(page).toHaveURL(/column=status/);
  await expect(rows(page).first()).toContainText("503");
  await panel(page).getByRole("button", { name: "Only with this status" }).click();
  await expect(box(page)).toHaveValue("level=error app=shop status=503");
  await panel(page).getByRole("button", { name: "Without this path" }).click();
  await expect(box(page)).toHaveValue(/^level=error app=shop status=503 path!=\/\S+$/);
  await settled(page);
  expect(await total(page)).toBe(await counted(shop, await box(page).inputValue()));
  await panel(page).getByRole("button", { name: "region=eu-west-1" }).click();
  await expect(box(page)).toHaveValue(/region=eu-west-1$/);
  await page.getByRole("button", { name: "Remove the column status" }).first().click();
  await expect(page).not.toHaveURL(/column/);
});

test("selected text is searched for, or excluded", async ({ page, shop }) => {
  await open(page, shop, "/?q=%22connection+refused%22");
  const all = await total(page);
  const row = rows(page).first();
  await row.evaluate((element) => {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
      const at = node.textContent?.indexOf("[worker-") ?? -1;
      if (at >= 0) getSelection()?.setBaseAndExtent(node, at, node, at + 10);
    }
  });
  await row.dispatchEvent("pointerup");
  await page.getByRole("toolbar", { name: "Selected text" }).getByRole("button", { name: "Without" }).click();
  await expect(box(page)).toHaveValue(/^"connection refused" -\[worker-\d\]$/);
  await settled(page);
  expect(await total(page)).toBeLessThan(all);
  await expect(panel(page)).toHaveCount(0);
});

test("order, wrapping, and the clipboard", async ({ page, shop, context }) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await open(page, shop, "/?q=worker");
  const newest = await rows(page).first().innerText();
  await page.getByRole("button", { name: "Newest first" }).click();
  await expect(page).toHaveURL(/order=asc/);
  await settled(page);
  await expect(rows(page).first()).toContainText("job 0 failed");
  expect(await rows(page).first().innerText()).not.toBe(newest);
  await page.getByRole("button", { name: "Wrap" }).click();
  await expect(page).toHaveURL(/wrap=1/);
  await rows(page).first().click();
  await panel(page).getByRole("button", { name: "Copy", exact: true }).click();
  await expect(page.getByText("Copied the record")).toBeVisible();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toMatch(
    /^2026-11-21 10:00:00 ERROR \[worker-0\] job 0 failed/,
  );
});

test("hostile text is displayed without effect", async ({ page, node }) => {
  const long = `start ${"x".repeat(1_000_000)} end`;
  const lines = [
    "<script>document.title='owned'</script><img src=x onerror=alert(1)> html",
    "\u001b[31mred\u001b[0m \u001b[2J\u001b[1;1H\u001b]0;owned\u0007 ansi",
    "invoice\u202egnp.exe\u2066 \u200bbidi",
    "javascript:alert(1) {{7*7}} link",
    '{"level":"error","msg":"<b>bold</b>\\nat line two\\nat line three","<i>k</i>":"json","big":9007199254740993}',
    "nul\u0000bell\u0007 control",
    long,
  ];
  await node.send(`${lines.join("\n")}\n`);
  page.on("dialog", (dialog) => dialog.dismiss().then(() => expect("a dialog").toBe("none")));
  await open(page, node, "/?order=asc&wrap=1");
  await expect(page).toHaveTitle("Bucksaw");
  await expect(rows(page).nth(0)).toContainText("<script>document.title='owned'</script><img src=x onerror=alert(1)>");
  expect(await page.locator("#records img, #records script, #records b, #records i").count()).toBe(0);
  await expect(rows(page).nth(1)).toContainText("ESC[2J");
  const red = rows(page).nth(1).getByText("red", { exact: true });
  const plain = rows(page).nth(1).getByText("ESC[2J");
  const colour = (element: Element) => getComputedStyle(element).color;
  expect(await red.evaluate(colour)).not.toBe(await plain.evaluate(colour));
  await expect(rows(page).nth(2)).toContainText("U+202E");
  await expect(rows(page).nth(2)).toContainText("U+200B");
  await expect(rows(page).nth(5)).toContainText("␀");
  // A line of a megabyte is cut in the list and in the panel, and shown whole on request.
  await expect(rows(page).nth(6)).toContainText("1.0 MB in all");
  await rows(page).nth(6).click();
  await expect(panel(page)).toContainText("The first 10.0 kB of 1.0 MB");
  await panel(page).getByRole("button", { name: "Show all" }).click();
  await expect
    .poll(() =>
      panel(page)
        .locator("pre")
        .evaluate((pre) => pre.textContent?.length),
    )
    .toBe(long.length);
  // Events of several lines are shown whole.
  await rows(page).nth(4).click();
  const field = panel(page).getByRole("row", { name: /^msg/ }).locator("[data-selectable]");
  expect(await field.innerText()).toBe("<b>bold</b>\nat line two\nat line three");
  await expect(panel(page).getByRole("rowheader", { name: "<i>k</i>" })).toBeVisible();
  await expect(panel(page).getByRole("row", { name: /^big/ })).toContainText("9007199254740993");
});

test("real logs are shown, searched and counted", async ({ page, node }) => {
  const files = corpus();
  test.skip(files.length === 0, "BUCKSAW_CORPUS names no directory of logs");
  for (const { name, text } of files) await node.send(text, `file=${name}`);
  await open(page, node);
  expect(await total(page)).toBe(await counted(node, ""));
  for (const q of ["error", "/fail(ed|ure)/i", "@level>=error", "@level=none", "-INFO"]) {
    await search(page, q);
    expect(await total(page), q).toBe(await counted(node, q));
  }
  await rows(page).first().click();
  await expect(panel(page).locator("pre")).not.toBeEmpty();
});

interface Line {
  labels: Record<string, string>;
  line?: string;
}

/** Counts the records of expressions, some at a time. */
async function countAll(node: Node, terms: readonly string[]): Promise<number[]> {
  const found: number[] = [];
  for (let at = 0; at < terms.length; at += 8) {
    found.push(...(await Promise.all(terms.slice(at, at + 8).map((q) => counted(node, q)))));
  }
  return found;
}

/** Every term that the page offers for a node's records finds at least what it stands for. */
async function everyTermFinds(node: Node) {
  // Of records: some of each stream.
  const { fields, records } = await (await fetch(`${node.url}/api/v1/fields?from=1h`)).json();
  expect(records).toBeGreaterThan(0);
  const text = await (await fetch(`${node.url}/api/v1/query?from=1h`)).text();
  const lines = text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Line)
    .filter(({ labels, line }) => labels !== undefined && line !== undefined);
  const step = Math.max(1, Math.floor(lines.length / 80));
  const wanted: { term: string; least: number }[] = [];
  for (const { labels, line = "" } of lines.filter((_, at) => at % step === 0)) {
    for (const [name, value] of Object.entries(labels)) wanted.push({ term: fieldTerm(name, "=", value), least: 1 });
    for (const { name, value } of fieldsOf(line).slice(0, 30)) {
      const term = recordTerm({ labels, text: line }, name, value);
      if (term !== undefined) wanted.push({ term, least: 1 });
    }
  }
  // Of the list of fields.
  for (const field of fields as FieldFacts[]) {
    const exists = existsTerm(field, fields);
    if (exists !== undefined) wanted.push({ term: exists, least: field.records });
    for (const value of field.values.slice(0, 10)) {
      const term = valueTerm(field, value, fields);
      if (term !== undefined) wanted.push({ term, least: value.count });
    }
  }
  // Of the legend.
  const levels = await (await fetch(`${node.url}/api/v1/histogram?from=1h&by=@level&buckets=1`)).json();
  const groups = Object.entries(levels.buckets[0].groups) as [string, number][];
  const unique = new Map<string, number>();
  for (const { term, least } of wanted) unique.set(term, Math.max(least, unique.get(term) ?? 0));
  const terms = [...unique.keys()];
  const found = await countAll(node, terms);
  const failed = terms.filter((term, at) => (found[at] ?? 0) < (unique.get(term) ?? 0));
  console.log(`${terms.length} terms of ${lines.length} records`);
  expect(failed).toEqual([]);
  for (const [level, count] of groups) expect(await counted(node, `@level=${level}`), level).toBe(count);
}

test("every value of generated logs finds its records", async ({ node }) => {
  test.setTimeout(120_000);
  await node.send(shopLogs(500), "app=shop,host=web-1");
  const odd = [
    '{"level":"error","app":"inner","@level":"x","":1,"a.b":1,"a":{"b":2,"":3},"t":["x",{"y":null}]}',
    '{"msg":"tab\\there \\"quoted\\" \\\\ back","path":"\\/api","emoji":"\\ud83d\\ude00","half":"a\\ud800b"}',
    '{"n":1.0,"big":9007199254740993,"e":1e5,"neg":-0,"t":true,"nil":null,"empty":"","space":" ","star":"*"}',
    `{"long":"${"long value ".repeat(300)}"}`,
    'a=1 b="two words" c="say \\"hi\\"" d= AND=x e=(x) f=/re/ g="-x" é=ü',
    `q=${"x".repeat(3_000)}`,
    "GET /a?b=c&d=e 200 https://x.org/?y=z",
    "\u001b[31mred=\u001b[0m1 k=v\u001b[0m",
  ];
  await node.send(odd.join("\n"), "app=odd,level=info,star=*");
  await everyTermFinds(node);
});

test("every value of real logs finds its records", async ({ node }) => {
  const files = corpus();
  test.skip(files.length === 0, "BUCKSAW_CORPUS names no directory of logs");
  test.setTimeout(900_000);
  for (const { name, text } of files) {
    const one = await new Node().start();
    try {
      await one.send(text, `file=${name}`);
      await everyTermFinds(one);
    } finally {
      await one.end();
    }
  }
  // All of them together, too.
  for (const { name, text } of files) await node.send(text, `file=${name}`);
  await everyTermFinds(node);
});

test("more records are fetched on scrolling, not before", async ({ page, node }) => {
  await node.send(Array.from({ length: 2_000 }, (_, at) => `line ${at}`).join("\n"));
  const asked: string[] = [];
  page.on("request", (request) => {
    if (request.url().includes("/api/v1/query?")) asked.push(request.url());
  });
  await open(page, node);
  await search(page, "line");
  await expect(page.getByTestId("status")).toContainText("300");
  expect(asked.filter((url) => url.includes("after="))).toEqual([]);
  await page.getByTestId("scroller").evaluate((element) => element.scrollTo({ top: element.scrollHeight }));
  await expect(page.getByTestId("status")).toContainText("2,000");
  expect(asked.filter((url) => url.includes("after="))).toHaveLength(1);
});

test("of a hundred thousand records, only those in view are rendered", async ({ page, node }) => {
  test.setTimeout(90_000);
  const batch = (from: number) =>
    Array.from(
      { length: 10_000 },
      (_, at) =>
        `ts=${from + at} level=${at % 7 === 0 ? "error" : "info"} msg="request ${from + at} served" path=/api/${at % 50}`,
    );
  for (let from = 0; from < 110_000; from += 10_000) await node.send(batch(from).join("\n"));
  await open(page, node);
  const list = page.getByTestId("scroller");
  await expect(async () => {
    await list.evaluate((element) => element.scrollTo({ top: element.scrollHeight }));
    await expect(page.getByTestId("status")).toContainText("100,000 records loaded", { timeout: 500 });
  }).toPass({ timeout: 60_000, intervals: [50] });
  await expect(page.getByText("The page keeps 100,000 records")).toBeAttached();
  // Fast scrolling, and jumps from one end to the other. How long frames take is printed, not tested: other load delays them.
  const { frames, most, fewest } = await list.evaluate(async (element) => {
    const frames: number[] = [];
    const rendered: number[] = [];
    const height = element.scrollHeight;
    let before = await new Promise<number>(requestAnimationFrame);
    for (let step = 0; step < 180; step += 1) {
      element.scrollTop = step % 30 === 29 ? Math.random() * height : element.scrollTop + 400;
      const now = await new Promise<number>(requestAnimationFrame);
      frames.push(now - before);
      before = now;
      rendered.push(element.querySelectorAll("[role=option]").length);
    }
    return { frames: frames.sort((a, b) => a - b), most: Math.max(...rendered), fewest: Math.min(...rendered) };
  });
  const [median, p95] = [0.5, 0.95].map((share) => frames[Math.floor(frames.length * share)]?.toFixed(1));
  console.log(`frames while scrolling 100,000 records: median ${median} ms, p95 ${p95} ms; ${fewest} to ${most} rows`);
  expect(fewest).toBeGreaterThan(10);
  expect(most).toBeLessThan(200);
});
