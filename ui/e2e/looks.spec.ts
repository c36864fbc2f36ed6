import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import type { Page } from "@playwright/test";
import { expect, type Node, test } from "./node.ts";
import { box, eachTheme, eachWidth, look, open, panel, rows, settled, theme } from "./page.ts";

/** Each view in both themes and widths: accessible, without overflow, and with a screenshot. */
const views: Record<string, (page: Page, shop: Node) => Promise<void>> = {
  start: async (page, shop) => {
    await page.goto(shop.url);
    await expect(page.getByTestId("errors").first()).toContainText("%");
  },
  send: async (page, shop) => {
    await page.goto(shop.url);
    await page.getByRole("button", { name: "Send logs" }).click();
    await expect(page.getByTestId("errors").first()).toContainText("%");
  },
  breakdown: async (page, shop) => {
    await open(page, shop, "/?q=app%3Dshop&by=path");
    await expect(page.locator("[data-level='/healthz']")).toBeVisible();
  },
  explore: (page, shop) => open(page, shop, "/?q=level%3Derror+OR+timeout"),
  columns: (page, shop) =>
    open(page, shop, "/?q=app%3Dshop+status%3E%3D400&column=status&column=path&column=duration_ms"),
  wrapped: (page, shop) => open(page, shop, "/?q=%2Fupstream+%5Cw%2B%2F&wrap=1"),
  record: async (page, shop) => {
    await open(page, shop, "/?q=level%3Derror+app%3Dshop");
    await rows(page).nth(3).click();
    await expect(panel(page).getByRole("row", { name: /^trace/ })).toBeVisible();
  },
  context: async (page, shop) => {
    await open(page, shop, "/?q=%22job+144+failed%22");
    await rows(page).first().click();
    await panel(page).getByRole("button", { name: "Context" }).click();
    await expect(page.locator("[data-around=context]").first()).toBeAttached();
    // On a phone it has made way for its context.
    if ((page.viewportSize()?.width ?? 0) > 900) await panel(page).getByRole("button", { name: "Close" }).click();
    await expect(panel(page)).toHaveCount(0);
  },
  completion: async (page, shop) => {
    await open(page, shop, "/?q=level%3Derror");
    await box(page).focus();
    await page.keyboard.press("End");
    await page.keyboard.type(" h");
    await expect(page.getByRole("listbox", { name: "Completions" })).toBeVisible();
  },
  error: async (page, shop) => {
    await open(page, shop);
    await box(page).fill("level=error (timeout OR");
    await expect(page.locator(".problem")).toBeVisible();
  },
  partial: async (page, shop) => {
    // The answer of a node with a damaged file of that time.
    const reason = "00000000001-00000000002-x.seg.damaged is damaged and was left out";
    await page.route("**/api/v1/histogram*", async (route) => {
      const answer = await route.fetch();
      const said = (await answer.text()).replaceAll('"partial":false', '"partial":true');
      const body = said.replaceAll('"partial_reasons":[]', `"partial_reasons":["${reason}"]`);
      await route.fulfill({ response: answer, body });
    });
    await open(page, shop, "/?q=level%3Dwarn");
    await expect(page.getByText("Records may be missing.")).toBeVisible();
    await expect(page.getByText(reason)).toBeVisible();
  },
  nothing: async (page, shop) => {
    await page.goto(`${shop.url}/?q=nothinglikethis`);
    await expect(page.getByRole("heading", { name: "No record matches" })).toBeVisible();
  },
  live: async (page, shop) => {
    await page.goto(`${shop.url}/?tail=1&q=app%3Dshop`);
    await expect(rows(page).first()).toBeVisible();
  },
  range: async (page, shop) => {
    await open(page, shop);
    await page.getByRole("button", { name: /Time range/ }).click();
    await expect(page.getByRole("button", { name: "Apply" })).toBeVisible();
  },
  help: async (page, shop) => {
    await open(page, shop);
    await page.getByRole("button", { name: "Help and keys" }).click();
    await expect(page.getByRole("dialog")).toBeVisible();
  },
  nodes: async (page, shop) => {
    await page.goto(`${shop.url}/nodes`);
    await expect(page.locator("figure canvas")).toHaveCount(8);
  },
};

for (const [view, go] of Object.entries(views)) {
  test(`${view} looks right in both themes and widths`, async ({ page, shop }) => {
    await eachWidth(page, async (width) => {
      await theme(page, "light");
      await go(page, shop);
      await eachTheme(page, (colours) => look(page, `${view}-${colours}-${width}`));
    });
  });
}

test("an empty node and an unreachable node look right", async ({ page, node }) => {
  await eachWidth(page, (width) =>
    eachTheme(page, async (colours) => {
      await page.goto(node.url);
      await expect(page.getByRole("heading", { name: "Send the first line" })).toBeVisible();
      await look(page, `first-${colours}-${width}`);
      await page.route("**/api/v1/query*", (route) => route.abort());
      await page.goto(`${node.url}/?q=`);
      await expect(page.getByRole("heading", { name: "The node does not answer" })).toBeVisible();
      await look(page, `lost-${colours}-${width}`);
      await page.unroute("**/api/v1/query*");
    }),
  );
});

test("the theme is the system's until the user chooses one", async ({ page, shop }) => {
  await page.emulateMedia({ colorScheme: "dark" });
  await open(page, shop);
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await background();
  await page.getByRole("button", { name: "Theme: as the system" }).click();
  await page.getByRole("button", { name: "Theme: dark" }).click();
  expect(await background()).not.toBe(dark);
  await page.reload();
  await settled(page);
  expect(await background()).not.toBe(dark);
});

/** `UPDATE=1` renders the image of the documents again. */
test("the image of the documents can be rendered", async ({ page, shop, browser }) => {
  await page.setViewportSize({ width: 1280, height: 760 });
  await theme(page, "light");
  await open(page, shop, "/?q=app%3Dshop+-%22%2Fhealthz%22&column=status");
  await expect(page.locator("[data-level=error]")).toBeVisible();
  await rows(page).filter({ hasText: "503" }).first().click();
  await expect(panel(page).getByRole("row", { name: /^trace/ })).toBeAttached();
  const picture = await page.screenshot();
  // The browser compresses it, on a page whose policy allows data URLs.
  const packer = await browser.newPage();
  const packed = await packer.evaluate(async (data) => {
    const image = new Image();
    image.src = `data:image/png;base64,${data}`;
    await image.decode();
    const canvas = new OffscreenCanvas(image.width, image.height);
    canvas.getContext("2d")?.drawImage(image, 0, 0);
    const bytes = new Uint8Array(
      await (await canvas.convertToBlob({ type: "image/webp", quality: 0.82 })).arrayBuffer(),
    );
    return Array.from(bytes);
  }, picture.toString("base64"));
  await packer.close();
  expect(packed.length).toBeLessThan(150_000);
  const file = new URL("../../docs/images/explore.webp", import.meta.url);
  if (process.env.UPDATE === "1") {
    mkdirSync(new URL(".", file), { recursive: true });
    writeFileSync(file, Uint8Array.from(packed));
  }
  expect(existsSync(file), "docs/images/explore.webp is missing: run UPDATE=1 npm run e2e").toBe(true);
});
