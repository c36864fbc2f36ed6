import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, type Page } from "@playwright/test";
import { Node, program, test } from "./node.ts";
import { rows } from "./page.ts";

/** A node with an auth file, and a token of each kind. */
class GuardedNode extends Node {
  readonly #dir: string;
  readonly file: string;

  constructor() {
    const dir = mkdtempSync(join(tmpdir(), "bucksaw-e2e-auth-"));
    const file = join(dir, "auth.toml");
    execFileSync(program, ["token", "add", "writer", "--auth-file", file, "--scope", "ingest"]);
    super(["--auth-file", file]);
    [this.#dir, this.file] = [dir, file];
  }

  token(name: string, ...more: string[]): string {
    const args = ["token", "add", name, "--auth-file", this.file, ...more];
    return execFileSync(program, args, { encoding: "utf8" }).trim();
  }

  revoke(name: string) {
    execFileSync(program, ["token", "revoke", name, "--auth-file", this.file]);
  }

  override async end() {
    await super.end();
    rmSync(this.#dir, { recursive: true, force: true });
  }
}

async function logIn(page: Page, token: string) {
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Log in" }).click();
}

const guarded = test.extend<{ guardedNode: GuardedNode }>({
  // biome-ignore lint/correctness/noEmptyPattern: the form of fixtures
  guardedNode: async ({}, use) => {
    const node = new GuardedNode();
    await node.start();
    await use(node);
    await node.end();
  },
});

guarded("a token opens the page, and only its own records", async ({ page, guardedNode }) => {
  const node = guardedNode;
  const [a, b] = ["a", "b"].map((tenant) =>
    node.token(tenant, "--scope", "ingest,read", "--label", `tenant=${tenant}`),
  );
  for (const [token, text] of [
    [a, "of tenant a"],
    [b, "of tenant b"],
  ]) {
    const headers = { Authorization: `Bearer ${token}` };
    // The node reads a changed file every second.
    const send = () => fetch(`${node.url}/api/v1/ingest?label=app=x`, { method: "POST", headers, body: `${text}\n` });
    await expect.poll(async () => (await send()).status).toBe(200);
  }
  await page.goto(`${node.url}/?q=app%3Dx`);
  await expect(page.getByRole("heading", { name: "Log in" })).toBeVisible();
  await logIn(page, "bks_wrong");
  await expect(page.getByRole("alert")).toContainText("The token is not valid");
  await logIn(page, a ?? "");
  await expect(rows(page).first()).toContainText("of tenant a");
  await expect(page.getByText("of tenant b")).toHaveCount(0);
  await expect(page.getByRole("link", { name: "Nodes" })).toHaveCount(0);
  // No script of the page can read the token.
  expect(await page.evaluate(() => document.cookie)).toBe("");
  expect((await page.context().cookies())[0]).toMatchObject({ httpOnly: true, sameSite: "Strict", secure: false });
  await page.getByRole("button", { name: "Log out a" }).click();
  await expect(page.getByRole("heading", { name: "Log in" })).toBeVisible();
  expect(await page.context().cookies()).toEqual([]);
});

guarded("a revoked token ends what is open", async ({ page, guardedNode }) => {
  const reader = guardedNode.token("reader", "--scope", "read");
  const session = () => fetch(`${guardedNode.url}/api/v1/session`, { headers: { Authorization: `Bearer ${reader}` } });
  await expect.poll(async () => (await session()).status).toBe(200);
  await page.goto(`${guardedNode.url}/?q=x&tail=1`);
  await logIn(page, reader);
  await expect(page.getByRole("button", { name: "Log out reader" })).toBeVisible();
  guardedNode.revoke("reader");
  await expect(page.getByRole("heading", { name: "Log in" })).toBeVisible({ timeout: 25_000 });
});

guarded("a user of several tenants chooses one", async ({ page, guardedNode }) => {
  const token = guardedNode.token("ab", "--scope", "ingest,read", "--tenant", "a,b");
  for (const tenant of ["a", "b"]) {
    const headers = { Authorization: `Bearer ${token}`, "X-Scope-OrgID": tenant };
    const body = `of tenant ${tenant}\n`;
    const send = () => fetch(`${guardedNode.url}/api/v1/ingest?label=app=x`, { method: "POST", headers, body });
    await expect.poll(async () => (await send()).status).toBe(200);
  }
  await page.goto(`${guardedNode.url}/?q=app%3Dx`);
  await logIn(page, token);
  await expect(rows(page).first()).toContainText("of tenant a");
  await page.getByLabel("Tenant", { exact: true }).selectOption("b");
  await expect(rows(page).first()).toContainText("of tenant b");
  await expect(page.getByText("of tenant a")).toHaveCount(0);
  await page.getByRole("button", { name: "Log out ab" }).click();
  await expect(page.getByRole("heading", { name: "Log in" })).toBeVisible();
  expect(await page.context().cookies()).toEqual([]);
});
