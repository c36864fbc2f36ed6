// Tokens: where they come from, where they are sent, and that they are not shown.

import assert from "node:assert/strict";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { inspect } from "node:util";
import { Credentials, parseToken } from "../dist/esm/credentials.js";
import { Client, type ClientSettings, type Failure } from "../dist/esm/index.js";
import { accept, hasCommand, Node, Stub, temporaryDirectory, until, vectors } from "./support.js";

const directory = temporaryDirectory();
after(() => rmSync(directory, { recursive: true }));

function tokenFile(text: string): string {
  const file = join(mkdtempSync(join(directory, "token-")), "token");
  writeFileSync(file, text);
  return file;
}

test("vectors of tokens", async (suite) => {
  for (const { name, text, token } of vectors<{ name: string; text: string; token: string | null }[]>("tokens.json")) {
    await suite.test(name, () => {
      assert.equal(parseToken(text) ?? null, token);
      const file = tokenFile(text);
      if (token === null) {
        for (const settings of [{ token: text }, { tokenFile: file }]) {
          assert.throws(
            () => new Credentials(settings),
            ({ message }: Error) => !message.includes("bks"),
          );
        }
      } else {
        assert.equal(new Credentials({ tokenFile: file }).authorization(), `Bearer ${token}`);
      }
    });
  }
});

test("vectors of endpoints with a token", () => {
  for (const { endpoint, sent } of vectors<{ endpoint: string; sent: boolean }[]>("token_endpoints.json")) {
    const make = (more: ClientSettings) =>
      void new Client({ endpoints: endpoint, token: "bks_secret", ...more }).close();
    if (sent) make({});
    else
      assert.throws(
        () => make({}),
        /^TypeError: endpoints: the token would be sent to http:\/\/[^ ]* without encryption/,
      );
    make({ insecureToken: true });
  }
  for (const [endpoints, sent] of [
    ["http://u:secret@127.0.0.1", true],
    ["https://u:secret@a", true],
    ["http://u:secret@a", false],
  ] as const) {
    const make = () => void new Client({ endpoints }).close();
    if (sent) make();
    else assert.throws(make, ({ message }: Error) => message.includes("the password") && !message.includes("secret"));
  }
});

test("each request has the token", async (context) => {
  const file = tokenFile("bks_file\n");
  context.after(() => {
    delete process.env.BUCKSAW_TOKEN;
  });
  for (const [environment, settings, user, expected] of [
    [undefined, {}, "", undefined],
    [" \n", {}, "", undefined],
    [" bks_env\n", {}, "", "Bearer bks_env"],
    ["bks_env", { token: "bks_set " }, "", "Bearer bks_set"],
    ["bks_env", { tokenFile: file }, "", "Bearer bks_file"],
    ["bks_env", {}, "u:p@", "Basic dTpw"],
  ] as const) {
    if (environment === undefined) delete process.env.BUCKSAW_TOKEN;
    else process.env.BUCKSAW_TOKEN = environment;
    const stub = await Stub.start();
    context.after(() => stub.close());
    const client = new Client({ endpoints: stub.endpoint.replace("//", `//${user}`), ...settings });
    context.after(() => client.close());
    client.log({ message: "a" });
    assert.equal(await client.flush(), true);
    await client
      .query("")
      .toArray()
      .catch(() => {});
    await client.count("").catch(() => {});
    await client
      .tail("")
      .next()
      .catch(() => {});
    assert.deepEqual(
      stub.requests.map(({ url, headers }) => [url.split("?")[0], headers.authorization]),
      ["ingest", "query", "count", "tail"].map((call) => [`/api/v1/${call}`, expected]),
    );
  }
});

for (const status of [401, 403]) {
  test(`a token is replaced without loss after ${status}`, async (context) => {
    const stub = await Stub.start();
    context.after(() => stub.close());
    // A script of one reply each time, so that it never ends.
    const answerByToken = (): void => {
      stub.script = [
        (request, response) => {
          answerByToken();
          if (request.headers.authorization === "Bearer bks_new") accept(request, response);
          else response.writeHead(status).end('{"error":"the credential has expired"}');
        },
      ];
    };
    answerByToken();
    const file = tokenFile("bks_old");
    const failures: Failure[] = [];
    const onError = (failure: Failure) => failures.push(failure);
    const client = new Client({ endpoints: stub.endpoint, tokenFile: file, batchAgeMs: 0, onError });
    context.after(() => client.close());
    client.log({ message: "a" });
    await until("a report", () => failures.length > 0);
    const message = `${stub.endpoint}: the credential has expired`;
    assert.deepEqual(failures[0], { kind: "denied", records: 1, message });
    let stats = client.stats();
    assert.deepEqual([stats.bufferedRecords, stats.dropped.refused], [1, 0]);
    assert.ok(stats.denied > 0);
    const refused = { name: "ReadError", code: "refused", status };
    await assert.rejects(client.count(""), { ...refused, message: "the credential has expired" });
    rmSync(file);
    await assert.rejects(client.count(""), { ...refused, message: /expired \(a changed file cannot be used: ENOENT/ });
    writeFileSync(`${file}.new`, "bks_new\n");
    renameSync(`${file}.new`, file);
    assert.equal(await client.flush(), true);
    stats = client.stats();
    assert.deepEqual([stats.acknowledged, stats.dropped.refused, stats.denied], [1, 0, stats.retries]);
    assert.deepEqual(new Set(failures.map(({ kind }) => kind)), new Set(["denied"]));
  });
}

test("settings of tokens that cannot be used are refused, and not shown", (context) => {
  const file = tokenFile("bks_secret and more");
  context.after(() => {
    delete process.env.BUCKSAW_TOKEN;
  });
  const assertRefused = (settings: ClientSettings, name: string) =>
    assert.throws(
      () => new Client(settings),
      (error: Error) => error.message.includes(name) && !inspect(error).includes("secret"),
    );
  assertRefused({ token: "bks_secret", tokenFile: file }, "token, tokenFile");
  assertRefused({ tokenFile: file }, file);
  assertRefused({ tokenFile: directory }, "is not a regular file");
  assertRefused({ tokenFile: join(directory, "missing") }, "missing");
  assertRefused({ token: ["bks_secret"] as unknown as string }, "token: expected a text");
  process.env.BUCKSAW_TOKEN = "bks_secret and more";
  assertRefused({}, "BUCKSAW_TOKEN");
});

test("a token is not shown", async (context) => {
  const failures: Failure[] = [];
  const onError = (failure: Failure) => failures.push(failure);
  const client = new Client({
    endpoints: "http://127.0.0.1:1",
    token: "bks_secret",
    batchAgeMs: 0,
    closeTimeMs: 0,
    onError,
  });
  context.after(() => client.close());
  client.log({ message: "a" });
  await until("a report", () => failures.length > 0);
  const error: unknown = await client.count("").catch((thrown: unknown) => thrown);
  const shown = [client, failures, error, client.stats()].flatMap((value) => [
    inspect(value, { depth: null, showHidden: true }),
    JSON.stringify(value),
    String(value),
  ]);
  assert.match(shown.join(), /ECONNREFUSED/);
  assert.ok(!shown.join().includes("secret"));
});

test("a node with tokens", async (context) => {
  if (!hasCommand("token")) return context.skip("the program has no tokens");
  const { node, token } = await Node.startWithToken();
  context.after(() => node.stop());
  const file = tokenFile("bks_wrong");
  const client = new Client({ endpoints: node.endpoint, tokenFile: file, batchAgeMs: 0, onError: () => {} });
  context.after(() => client.close());
  client.log({ message: "recognised" });
  await until("the node denies access", () => client.stats().denied > 0);
  await assert.rejects(client.count(""), { name: "ReadError", code: "refused", status: 401 });
  writeFileSync(file, token);
  assert.equal(await client.flush(), true);
  assert.equal(client.stats().acknowledged, 1);
  const records = await client.query("").toArray();
  assert.deepEqual(
    records.map(({ line }) => line),
    ["recognised"],
  );
});
