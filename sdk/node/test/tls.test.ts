// Endpoints with TLS.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, type TestContext, test } from "node:test";
import { Client, type ClientSettings, type Failure } from "../dist/esm/index.js";
import { Authority, type CertificateFiles } from "./certificates.js";
import { hasCommand, Node, Stub, until } from "./support.js";

const own = new Authority();
const foreign = new Authority();
after(() => {
  for (const { directory } of [own, foreign]) rmSync(directory, { recursive: true });
});
const server = own.issue("127.0.0.1");

async function start(context: TestContext, files: CertificateFiles = server, clientCa?: string): Promise<Stub> {
  const stub = await Stub.startTls(files, clientCa);
  context.after(() => stub.close());
  return stub;
}

function open(context: TestContext, settings: ClientSettings): { client: Client; failures: Failure[] } {
  const failures: Failure[] = [];
  const onError = (failure: Failure) => failures.push(failure);
  const client = new Client({ batchAgeMs: 0, closeTimeMs: 0, onError, ...settings });
  context.after(() => client.close());
  return { client, failures };
}

/** A batch and a count fail for this reason, and the records stay in the buffer. */
async function assertFails(context: TestContext, stub: Stub, expected: string, settings: ClientSettings) {
  const { client, failures } = open(context, { endpoints: stub.endpoint, ...settings });
  client.log({ message: "a" });
  // A server may close the connection before the reason of its refusal is read, so not always the first attempt.
  await until(expected, () => failures.some(({ kind, message }) => kind === "retry" && message.includes(expected)));
  assert.equal(client.stats().bufferedRecords, 1);
  await assertCountFails(client, expected);
  assert.equal(stub.requests.length, 0);
}

async function assertCountFails(client: Client, expected: string): Promise<void> {
  let last = "";
  await until(`${expected}, at last ${last}`, async () => {
    last = await client.count("").then(String, String);
    return last.includes(expected);
  });
}

/** A server of openssl, which says why it refuses the certificate of a client. One of Node.js only closes the connection. */
async function startOpenssl(context: TestContext): Promise<string> {
  const files = ["-cert", server.certificate, "-key", server.key, "-CAfile", own.file];
  const process = spawn("openssl", [
    "s_server",
    "-accept",
    "127.0.0.1:0",
    "-Verify",
    "1",
    "-verify_return_error",
    ...files,
  ]);
  context.after(() => process.kill());
  let output = "";
  process.stdout.on("data", (chunk) => {
    output += chunk;
  });
  await until("the server of openssl listens", () => /^ACCEPT .*:\d+$/m.test(output));
  return `https://127.0.0.1:${/^ACCEPT .*:(\d+)$/m.exec(output)?.[1]}`;
}

test("a CA file is trusted, and makes an address without a scheme one with TLS", async (context) => {
  const stub = await start(context);
  for (const endpoints of [stub.endpoint, stub.endpoint.replace("https://", "")]) {
    const { client } = open(context, { endpoints, caFile: own.file });
    client.log({ message: "a" });
    assert.equal(await client.flush(), true);
    assert.equal(client.stats().acknowledged, 1);
    stub.script.push((_, response) => response.end('{"stats":{"matched":0,"partial":false,"partial_reasons":[]}}\n'));
    assert.deepEqual(await client.query("").toArray(), []);
  }
});

test("certificates that cannot be verified are refused, with the reason", async (context) => {
  const caFile = own.file;
  const stub = await start(context);
  const unknown = "the certificate of the node is not signed by a trusted CA: ";
  await assertFails(context, stub, unknown, {});
  await assertFails(context, stub, unknown, { caFile: foreign.file });
  const wrongName = await start(context, own.issue("a.example"));
  await assertFails(context, wrongName, "the certificate of the node is not for this name: ", { caFile });
  const expired = await start(context, own.issue("127.0.0.1", [-2, -1]));
  await assertFails(context, expired, "the certificate of the node has expired: ", { caFile });
  const future = await start(context, own.issue("127.0.0.1", [1, 2]));
  await assertFails(context, future, "the certificate of the node is not valid yet: ", { caFile });
});

test("the environment does not turn the verification off", async (context) => {
  const stub = await start(context);
  context.after(() => {
    delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
  });
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";
  await assertFails(context, stub, "the certificate of the node is not signed by a trusted CA: ", {});
});

test("a certificate of the client", async (context) => {
  const stub = await start(context, server, own.file);
  const caFile = own.file;
  await assertFails(context, stub, "the node requires a client certificate: ", { caFile });
  const other = foreign.issue("client.example");
  const refused = { caFile, certificateFile: other.certificate, keyFile: other.key };
  const { client: denied } = open(context, { endpoints: await startOpenssl(context), ...refused });
  await assertCountFails(denied, "the node refuses the client certificate: ");
  const good = own.issue("client.example");
  const { client } = open(context, {
    endpoints: stub.endpoint,
    caFile,
    certificateFile: good.certificate,
    keyFile: good.key,
  });
  client.log({ message: "a" });
  assert.equal(await client.flush(), true);
  assert.equal(client.stats().acknowledged, 1);
});

function replace(name: string, content: string | Buffer): void {
  writeFileSync(`${name}.new`, content);
  renameSync(`${name}.new`, name);
}

test("changed files are used, and broken ones are not", async (context) => {
  const stub = await start(context, server, own.file);
  const caFile = join(mkdtempSync(join(own.directory, "changed-")), "ca.pem");
  copyFileSync(foreign.file, caFile);
  const old = own.issue("client.example", [-2, -1]);
  const fresh = own.issue("client.example");
  const { client } = open(context, {
    endpoints: stub.endpoint,
    caFile,
    certificateFile: old.certificate,
    keyFile: old.key,
  });
  client.log({ message: "a" });
  await assertCountFails(client, "not signed by a trusted CA");
  replace(caFile, "no certificate");
  await assertCountFails(client, `(a changed file cannot be used: ${caFile} has no certificate in PEM format)`);
  replace(caFile, readFileSync(own.file));
  await assertCountFails(client, "the connection was closed");
  replace(old.certificate, readFileSync(fresh.certificate));
  await assertCountFails(client, "key values mismatch");
  replace(old.key, readFileSync(fresh.key));
  assert.equal(await client.flush(), true);
  assert.equal(client.stats().acknowledged, 1);
});

test("files and settings that cannot be used are refused", () => {
  const { certificate, key } = own.issue("client.example");
  for (const [settings, expected] of [
    [{ caFile: "/missing" }, /caFile.*\/missing/],
    [{ caFile: own.directory }, /is not a regular file/],
    [{ caFile: key }, /has no certificate in PEM format/],
    [{ certificateFile: certificate }, /each needs the other/],
    [{ keyFile: key }, /each needs the other/],
    [{ certificateFile: certificate, keyFile: certificate }, /cert\.pem/],
    [{ certificateFile: certificate, keyFile: foreign.issue("client.example").key }, /mismatch/],
    [{ caFile: own.file, endpoints: "http://127.0.0.1" }, /are for https/],
    [{ caFile: 5 as unknown as string }, /caFile: expected a text/],
  ] as const) {
    assert.throws(() => new Client({ endpoints: "127.0.0.1", ...settings }), { name: "TypeError", message: expected });
  }
});

test("a node with TLS", async (context) => {
  if (!hasCommand("certs")) return context.skip("the program has no TLS");
  const node = await Node.startTls();
  context.after(() => node.stop());
  const endpoints = node.endpoint;
  const { client } = open(context, { endpoints, ...node.files });
  client.log({ message: "encrypted" });
  assert.equal(await client.flush(), true);
  assert.equal(client.stats().acknowledged, 1);
  const records = await client.query("").toArray();
  assert.deepEqual(
    records.map(({ line }) => line),
    ["encrypted"],
  );
  const { client: anonymous } = open(context, { endpoints, caFile: node.files.caFile });
  await assertCountFails(anonymous, "the node requires a client certificate");
  const { client: distrustful } = open(context, { endpoints });
  await assertCountFails(distrustful, "the certificate of the node is not signed by a trusted CA");
});
