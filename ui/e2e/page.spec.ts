import { readFileSync } from "node:fs";
import { expect, test } from "./node.ts";
import { box, counted, open, panel, rows, search, settled, total } from "./page.ts";

test("fields list values with their shares, which can be filtered by or excluded", async ({ page, shop }) => {
  await open(page, shop, "/?q=app%3Dshop");
  const fields = page.getByRole("region", { name: "Fields" });
  await fields
    .getByRole("button", { name: /^level/ })
    .last()
    .click();
  const values = fields.getByRole("list", { name: "Values of level" });
  const info = values.getByRole("button", { name: /^info/ });
  const share = Math.round((100 * (await counted(shop, "app=shop level=info"))) / 8_000);
  await expect(info).toContainText(`${share}%`);
  await values.getByRole("button", { name: /^error/ }).click();
  await expect(box(page)).toHaveValue("app=shop level=error");
  await settled(page);
  await fields.getByLabel("Find a field").fill("user");
  await expect(fields.getByRole("button", { name: /^host/ })).toHaveCount(0);
  await fields.getByRole("button", { name: /^user.id/ }).click();
  await fields
    .getByRole("button", { name: /^Without/ })
    .first()
    .click();
  await expect(box(page)).toHaveValue(/user\.id!=\d+$/);
});

test("the URL holds the state, and a copied link has absolute times", async ({ page, shop, context }) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await open(page, shop, "/?q=level%3Derror&from=30m&order=asc&column=path&wrap=1");
  await expect(box(page)).toHaveValue("level=error");
  await expect(page.getByRole("button", { name: "Oldest first" })).toBeVisible();
  await expect(page.getByRole("button", { name: "Wrap" })).toHaveAttribute("aria-pressed", "true");
  await rows(page).nth(1).click();
  const text = await panel(page).locator("pre").innerText();
  await page.getByRole("button", { name: "Copy a link with fixed times" }).click();
  const link = await page.evaluate(() => navigator.clipboard.readText());
  const said = new URL(link).searchParams;
  expect(said.get("from")).toMatch(/^20.*Z$/);
  expect(said.get("to")).toMatch(/^20.*Z$/);
  const other = await context.newPage();
  await other.goto(link);
  await settled(other);
  await expect(panel(other).locator("pre")).toHaveText(text);
  expect(await total(other)).toBe(await total(page));
  // A record that is not in the list is fetched.
  said.set("q", "worker");
  await other.goto(`${shop.url}/?${said}`);
  await expect(panel(other).locator("pre")).toHaveText(text);
});

test("the complete answer is downloaded", async ({ page, shop }) => {
  await open(page, shop, "/?q=level%3Derror");
  for (const [name, ending] of [
    ["Text", "log"],
    ["NDJSON", "ndjson"],
  ] as const) {
    await page.getByRole("button", { name: "Download" }).click();
    const waiting = page.waitForEvent("download");
    await page.getByRole("menuitem", { name }).click();
    const download = await waiting;
    expect(download.suggestedFilename()).toMatch(new RegExp(`^bucksaw-.*\\.${ending}$`));
    const lines = readFileSync(await download.path(), "utf8")
      .trimEnd()
      .split("\n");
    const want = await counted(shop, "level=error");
    expect(lines.length).toBe(ending === "log" ? want : want + 1);
    expect(JSON.parse(lines[0] ?? "")).toMatchObject(
      ending === "log" ? { level: "error" } : { labels: { app: "shop" } },
    );
    await expect(page.getByRole("menu")).toHaveCount(0);
  }
});

test("searches are saved in the browser", async ({ page, shop }) => {
  await open(page, shop, "/?q=level%3Derror&column=path");
  await page.keyboard.press("s");
  await page.getByLabel("Name of this search").fill("what fails");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("list", { name: "Saved" })).toContainText("what fails");
  await page.keyboard.press("Escape");
  await search(page, "other");
  await page.reload();
  await page.getByRole("button", { name: "Saved searches" }).click();
  await page.getByRole("button", { name: /^what fails/ }).click();
  await expect(box(page)).toHaveValue("level=error");
  await expect(page).toHaveURL(/column=path/);
  await page.getByRole("button", { name: "Saved searches" }).click();
  await page.getByRole("button", { name: "Forget what fails" }).click();
  await expect(page.getByText("No saved searches")).toBeVisible();
});

test("every action has a key", async ({ page, shop }) => {
  await open(page, shop);
  const press = (keys: string) => page.keyboard.press(keys);
  await press("/");
  await expect(box(page)).toBeFocused();
  await page.keyboard.type("level=warn");
  await press("Enter");
  await press("Escape");
  await settled(page);
  expect(await total(page)).toBe(await counted(shop, "level=warn"));
  await press("j");
  await press("j");
  await press("Enter");
  await expect(panel(page)).toBeVisible();
  const first = await panel(page).locator("h2").innerText();
  await press("j");
  await expect(panel(page).locator("h2")).not.toHaveText(first);
  await press("k");
  await expect(panel(page).locator("h2")).toHaveText(first);
  await press("Escape");
  await expect(panel(page)).toHaveCount(0);
  await expect(page.getByRole("listbox", { name: "Records" })).toBeFocused();
  await press("End");
  await press("Home");
  await press("Enter");
  await expect(panel(page)).toBeVisible();
  await press("Escape");
  await press("w");
  await expect(page).toHaveURL(/wrap=1/);
  await press("o");
  await expect(page).toHaveURL(/order=asc/);
  await press("f");
  await expect(page.getByRole("region", { name: "Fields" })).toHaveCount(0);
  await press("[");
  await expect(page).toHaveURL(/from=20/);
  await press("?");
  await expect(page.getByRole("dialog", { name: "Help" })).toBeVisible();
  await press("Escape");
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await press("e");
  await expect(page.getByRole("dialog", { name: "Time range" })).toBeVisible();
  await press("Escape");
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await press("n");
  await expect(page.getByRole("heading", { name: "1 node" })).toBeVisible();
  await press("n");
  await expect(box(page)).toHaveValue("level=warn");
});

test("the nodes page shows states and history", async ({ page, node }) => {
  await node.send("a line\n".repeat(2_000));
  await page.goto(`${node.url}/nodes`);
  const shown = page.getByRole("article");
  await expect(shown).toContainText("ready");
  await expect(shown).toContainText("ingest");
  await expect(shown).toContainText(node.addresses.fast ?? "nowhere");
  await expect(shown).toContainText("Nothing is damaged");
  await expect(shown).toContainText("2,000 records in", { timeout: 15_000 });
  for (const name of ["Backlog", "Compaction backlog", "Disk free", "Ingest", "Load"])
    await expect(shown).toContainText(name);
  await expect(page.locator("figure canvas")).toHaveCount(8);
  await node.signal("SIGKILL");
  await expect(page.getByRole("alert")).toContainText("The node does not answer");
  await expect(shown).toContainText("2,000 records in");
});

test("an empty node shows how to send a line, and shows that line", async ({ page, node }) => {
  await page.goto(node.url);
  await expect(page.getByRole("heading", { name: "Send the first line" })).toBeVisible();
  const [host, port] = (node.addresses.fast ?? "").split(":");
  await expect(page.getByText(`nc -q1 ${host} ${port}`)).toBeVisible();
  await expect(page.getByText(`bucksaw forward --to ${host}:${port} --label app=hello`)).toBeVisible();
  // The shown command works as it is.
  const command = await page.getByText("curl --data-binary").innerText();
  const { execSync } = await import("node:child_process");
  execSync(command, { shell: "/bin/bash", stdio: "ignore" });
  await expect(rows(page).first()).toContainText("hello from curl");
  await expect(rows(page)).toHaveCount(1);
});

test("an empty answer and an unreachable node come with suggestions", async ({ page, node }) => {
  await node.send("Something\n");
  await open(page, node);
  await box(page).fill("something");
  await expect(page.getByRole("heading", { name: "No record matches" })).toBeVisible();
  await page.getByRole("button", { name: /Any case/ }).click();
  await expect(rows(page)).toHaveCount(1);
  await node.signal("SIGKILL");
  await page.route("**/api/**", (route) => route.abort());
  await page.keyboard.press("r");
  await expect(page.getByRole("alert")).toContainText("The node does not answer");
});

test("nothing is loaded from other servers, and the first paint is fast", async ({ page, shop, errors }) => {
  const elsewhere: string[] = [];
  page.on("request", (request) => {
    if (!request.url().startsWith(shop.url) && !request.url().startsWith("data:")) elsewhere.push(request.url());
  });
  await open(page, shop);
  expect(elsewhere).toEqual([]);
  const paint = await page.evaluate(
    () =>
      performance.getEntriesByType("paint").find(({ name }) => name === "first-contentful-paint")?.startTime ??
      Number.NaN,
  );
  console.log(`first contentful paint: ${paint.toFixed(0)} ms`);
  expect(paint).toBeLessThan(1_000);
  // The content-security policy disables injected markup.
  const ran = await page.evaluate(async () => {
    try {
      document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.owned=1'>");
      return "made";
    } catch {
      return "refused";
    }
  });
  expect(ran).toBe("refused");
  expect(errors.splice(0).join()).toContain("TrustedHTML");
});
