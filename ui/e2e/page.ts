import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Locator, Page } from "@playwright/test";
import { expect, type Node } from "./node.ts";

/** Opens the page and waits until the answer and the counts are complete. */
export async function open(page: Page, node: Node, address = "/?q=") {
  await page.goto(node.url + address);
  await settled(page);
}

export async function settled(page: Page) {
  await expect(page.getByTestId("status")).toHaveAttribute("data-status", "ready");
  await expect(page.getByTestId("total")).toHaveAttribute("data-exact", "true");
}

export const box = (page: Page): Locator => page.getByRole("textbox", { name: "Filter expression" });
export const rows = (page: Page): Locator => page.getByRole("listbox", { name: "Records" }).getByRole("option");
export const panel = (page: Page): Locator => page.getByRole("region", { name: "Record", exact: true });

/** Types a filter and waits for its answer. */
export async function search(page: Page, q: string) {
  await box(page).fill(q);
  await expect(page).toHaveURL((url) => (url.searchParams.get("q") ?? "") === q);
  await settled(page);
}

/** The number of matches that the page shows. */
export async function total(page: Page): Promise<number> {
  const text = await page.getByTestId("total").innerText();
  return Number(text.replace(/[^\d]/g, ""));
}

/** The number of matches that the node counts. */
export async function counted(node: Node, q: string, from = "1h"): Promise<number> {
  const url = `${node.url}/api/v1/count?${new URLSearchParams({ q, from })}`;
  return ((await (await fetch(url)).json()) as { count: number }).count;
}

/** Fails unless an element is within the visible part of the list. */
export async function inView(page: Page, element: Locator) {
  await expect(element).toBeVisible();
  await expect(async () => {
    const [row, list] = [await element.boundingBox(), await page.getByTestId("scroller").boundingBox()];
    if (row === null || list === null) throw new Error("not rendered");
    expect(row.y).toBeGreaterThanOrEqual(list.y);
    expect(row.y + row.height).toBeLessThanOrEqual(list.y + list.height);
  }).toPass({ timeout: 5_000 });
}

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Fails on violations of the accessibility rules. */
export async function accessible(page: Page, where: string) {
  await page.evaluate(axe);
  const found = await page.evaluate(async () => {
    const axe = (globalThis as unknown as { axe: { run: (what: Document, how: object) => Promise<Report> } }).axe;
    interface Report {
      violations: { id: string; help: string; nodes: { html: string; failureSummary: string }[] }[];
    }
    const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
    const { violations } = await axe.run(document, { runOnly: tags });
    return violations.map(
      ({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.html} ${node.failureSummary}`).join("\n")}`,
    );
  });
  expect(found, where).toEqual([]);
}

/** Emulates a theme of the system. */
export async function theme(page: Page, name: "light" | "dark") {
  await page.emulateMedia({ colorScheme: name, reducedMotion: "reduce" });
}

/** Calls `what` at the width of a desktop and of a phone. */
export async function eachWidth(page: Page, what: (width: number) => Promise<void>) {
  for (const [width, height] of [
    [1440, 900],
    [390, 844],
  ] as const) {
    await page.setViewportSize({ width, height });
    await what(width);
  }
}

/** Calls `what` in both themes. */
export async function eachTheme(page: Page, what: (name: "light" | "dark") => Promise<void>) {
  for (const name of ["light", "dark"] as const) {
    await theme(page, name);
    await what(name);
  }
}

const pictures = process.env.BUCKSAW_PICTURES ?? "test-results/pictures";
mkdirSync(pictures, { recursive: true });

/** Takes a screenshot. Fails on violations of the accessibility rules and on overflowing elements. */
export async function look(page: Page, name: string) {
  // Colours of the canvas follow in the next frames.
  await page.evaluate(() => new Promise((shown) => requestAnimationFrame(() => requestAnimationFrame(shown))));
  await page.screenshot({ path: `${pictures}/${name}.png` });
  await accessible(page, name);
  const { wide, room } = await page.evaluate(() => ({
    wide: document.documentElement.scrollWidth,
    room: innerWidth,
  }));
  expect(wide, `${name}: no element overflows`).toBeLessThanOrEqual(room);
}

/** Takes and checks screenshots at both widths and in both themes. */
export async function lookAllWays(page: Page, name: string) {
  await eachWidth(page, (width) => eachTheme(page, (colours) => look(page, `${name}-${colours}-${width}`)));
}
