import { describe, expect, it } from "vitest";
import { part, partsOf } from "../src/components/barParts.ts";
import type { FieldFacts } from "../src/lib/complete.ts";
import { fieldTerm, negated, tokenize } from "../src/lib/expression.ts";
import { groupFields, isOdd } from "../src/lib/fieldGroups.ts";
import { attributeNodes, fieldsOf, treeOf, valueOfField } from "../src/lib/fields.ts";
import { highlighter } from "../src/lib/highlight.ts";
import { idMs, neighbour } from "../src/lib/ids.ts";
import { messageFirst, rowText } from "../src/lib/rowText.ts";
import { scopesOf } from "../src/lib/scopes.ts";
import { sortedRows, withContext } from "../src/lib/shownRows.ts";
import { existsTerm, recordTerm, textTerm, valueTerm } from "../src/lib/terms.ts";
import type { Row } from "../src/worker/messages.ts";

const row = (id: string, text = id, labels: Record<string, string> = {}): Row => ({
  id,
  time: "2026-11-20T23:10:00.123456Z",
  labels,
  text,
  level: undefined,
  binary: false,
  cut: false,
});

describe("terms for a value of a record", () => {
  it.each([
    ["a field", {}, '{"level":"error"}', "level", "error", "level=error"],
    ["a label of the same value", { level: "error" }, '{"level":"error"}', "level", "error", "level=error"],
    // The name would be that of the label, whose value is another.
    ["a label of another value", { level: "info" }, '{"level":"error"}', "level", "error", "error"],
    ["a derived field", {}, '{"@level":"a b"}', "@level", "a b", '"a b"'],
    ["an escaped text", { m: "x" }, '{"m":"a\\nb"}', "m", "a\nb", "a\\nb"],
    ["a long value", {}, `v=${"x".repeat(1_200)}`, "v", "x".repeat(1_200), "x".repeat(200)],
    ["a star", {}, '{"v":"*"}', "v", "*", 'v="*"'],
    ["an operator", {}, "v=~x", "v", "~x", 'v="~x"'],
    ["half a character", {}, '{"v":"ab\\ud800"}', "v", "ab\ud800", "ab"],
    ["bytes that are no text", {}, "v=ab\ufffdcde", "v", "ab\ufffdcde", "cde"],
    ["nothing to search for", {}, "v=\ufffd", "v", "\ufffd", undefined],
  ])("%s", (_, labels, text, name, value, want) => expect(recordTerm({ labels, text }, name, value)).toBe(want));

  it("of a record with attributes are those that filters read", () => {
    const record = {
      labels: { app: "web" },
      text: "trace_id=line pod=a",
      attributes: { trace_id: "4bf9", app: "db", note: "x y" },
    };
    const term = (name: string, value: string) => recordTerm(record, name, value);
    expect(term("trace_id", "4bf9")).toBe("trace_id=4bf9");
    expect(term("trace_id", "line")).toBe("line");
    expect(term("app", "db")).toBe("db");
    expect(term("note", "x y")).toBe('note="x y"');
    expect(term("pod", "a")).toBe("pod=a");
    expect(["app", "trace_id", "pod", "none"].map((name) => valueOfField(record, name))).toEqual([
      "web",
      "4bf9",
      "a",
      undefined,
    ]);
    expect(attributeNodes(record).map(({ name, value }) => `${name}=${value}`)).toEqual([
      "trace_id=4bf9",
      "app=db",
      "note=x y",
    ]);
  });

  it("are of the text that the record has", () => {
    expect(textTerm('{"path":"a\\/b c"}', "a/b c")).toBe('"a\\\\/b c"');
    expect(textTerm("plain", "status=200")).toBeUndefined();
  });
});

describe("terms for a value of an answer", () => {
  const field = (name: string, kind: FieldFacts["kind"]): FieldFacts => ({
    name,
    kind,
    records: 1,
    distinct: 1,
    values: [],
  });
  const app = field("app", "label");
  const other = field("app", "field");
  const attribute = field("app", "attribute");
  it("knows which field of a name is tested", () => {
    expect(existsTerm(attribute, [attribute, other])).toBe("app=*");
    expect(existsTerm(other, [attribute, other])).toBeUndefined();
    expect(existsTerm(attribute, [app, attribute])).toBeUndefined();
    expect(existsTerm(field("@level", "derived"), [field("@level", "field")])).toBe("@level=*");
  });
  it.each([
    [field("a", "field"), { value: "x y", count: 1 }, 'a="x y"'],
    [field("a", "field"), { value: "x/(y", count: 1, cut: true }, "a=~/^x\\/\\(y/"],
    [field("odd name", "field"), { value: "x", count: 1, cut: true }, '"odd name"=~/^x/'],
    [other, { value: "x y", count: 1 }, '"x y"'],
    [other, { value: 'x"y', count: 1 }, undefined],
    [app, { value: "shop", count: 1 }, "app=shop"],
    [field("@level", "derived"), { value: "error", count: 1 }, "@level=error"],
  ] as const)("%j %j", (field, value, want) => {
    const term = valueTerm(field, value, [app, other]);
    expect(term).toBe(want);
    expect(tokenize(term ?? "").some(({ kind }) => kind === "error")).toBe(false);
  });
  it("are of any value", () => {
    expect(existsTerm(field("odd name", "field"), [])).toBe('"odd name"=*');
    expect(existsTerm(other, [app, other])).toBeUndefined();
  });
  it("can be negated", () => expect(negated(fieldTerm("@level", "=", "none"))).toBe("@level!=none"));
});

describe("a record on one line", () => {
  const none = () => [];
  const json = '{"level":"info","msg":"served","status":200,"user":{"id":7}}';
  it("has its message first", () => {
    expect(messageFirst(json)).toEqual({ message: "served", rest: 'status=200 user={"id":7}' });
    expect(messageFirst('{"a":1}')).toBeUndefined();
    expect(messageFirst("{broken")).toBeUndefined();
    expect(rowText("plain", none, 80)).toEqual({ message: "plain", rest: "", cutBefore: false });
  });
  it("shows a match that lies beyond the cut", () => {
    const text = `${"x".repeat(500)} needle ${"y".repeat(50)}`;
    const shown = rowText(text, highlighter("needle"), 80);
    expect(shown.cutBefore).toBe(true);
    expect(shown.message.indexOf("needle")).toBe(30);
    expect(rowText(text, highlighter("xxx"), 80).cutBefore).toBe(false);
  });
  it("shows a match in another field than the message", () => {
    const long = `{"msg":"${"m".repeat(300)}","path":"/needle"}`;
    const shown = rowText(long, highlighter("needle"), 80);
    expect(`${shown.message}  ${shown.rest}`.indexOf("needle")).toBeLessThan(80);
  });
  it("is as received if the match is across keys", () => {
    expect(rowText(json, highlighter('"\\"status\\":200"'), 80).message).toBe(json);
  });
  it("is not cut within an escape sequence", () => {
    const text = `${"x".repeat(100)}\x1b[31m${"y".repeat(28)}needle`;
    expect(rowText(text, highlighter("needle"), 80).message.startsWith("\x1b[31m")).toBe(true);
  });
});

describe("a record as a tree", () => {
  const flat = (text: string) => {
    const out: string[] = [];
    const visit = (nodes: ReturnType<typeof treeOf>, depth: number) => {
      for (const { key, name, kind, value, members } of nodes) {
        out.push(`${" ".repeat(depth)}${key} ${name} ${kind} ${value}`);
        visit([...members], depth + 1);
      }
    };
    visit(treeOf(text), 0);
    return out;
  };
  it("has the names of filters", () => {
    const text = '{"a":{"b":[true,null]},"c":"x","d":1.5}';
    expect(flat(text)).toEqual([
      "a a object 1",
      " b a.b array 2",
      "  0 a.b.0 boolean true",
      "  1 a.b.1 null null",
      "c c text x",
      "d d number 1.5",
    ]);
    const leaves = flat(text).filter((line) => !/ (object|array) /.test(line));
    expect(leaves.map((line) => line.trim().split(" ")[1])).toEqual(fieldsOf(text).map(({ name }) => name));
  });
  it("is flat for logfmt, and empty for text", () => {
    expect(flat("a=1 b=x")).toEqual(["a a number 1", "b b text x"]);
    expect(flat("text")).toEqual([]);
  });
});

describe("the rows of the list", () => {
  const ids = (rows: readonly Row[]) => rows.map(({ id }) => id).join("");
  it("are sorted by a field, numbers by value, without the field last", () => {
    const rows = [row("a", "n=9"), row("b", "n=10"), row("c", "n=x"), row("d", "none"), row("e", "n=9")];
    expect(ids(sortedRows(rows, { name: "n", descending: false }))).toBe("aebcd");
    expect(ids(sortedRows(rows, { name: "n", descending: true }))).toBe("cbaed");
  });
  it("have the context of a record in its place, and no row twice", () => {
    const rows = [row("9"), row("7"), row("5"), row("3"), row("1")];
    const block = [row("6"), row("5"), row("4"), row("3"), row("2")];
    expect(ids(withContext(rows, block, "5", true))).toBe("97654321");
    expect(ids(withContext(rows, [row("7"), row("6"), row("5")], "5", true))).toBe("976531");
    // A record that does not match has the place where it would be.
    expect(ids(withContext(rows, [row("6")], "6", true))).toBe("976531");
    expect(ids(withContext(rows.toReversed(), [row("6")], "6", false))).toBe("135679");
    expect(ids(withContext(rows, [row("0")], "0", true))).toBe("975310");
  });
});

it("scopes are those that a record has", () => {
  const names = (text: string, labels = {}) => scopesOf(row("a", text, labels)).map(({ name, q }) => `${name} ${q}`);
  expect(names("plain", { app: "shop" })).toEqual(["stream "]);
  expect(names('{"host":"web 1","trace_id":"ab"}')).toEqual(["stream ", 'host host="web 1"', "trace trace_id=ab"]);
  expect(names("host=x", { host: "y" })).toEqual(["stream ", "host host=y"]);
});

it("ids have neighbours and times", () => {
  expect(neighbour("01ARZ3NDEKTSV4RRFFQ69G5FAV", 1)).toBe("01ARZ3NDEKTSV4RRFFQ69G5FAW");
  expect(neighbour("01ARZ3NDEKTSV4RRFFQ69G5FZZ", 1)).toBe("01ARZ3NDEKTSV4RRFFQ69G5G00");
  expect(neighbour("01ARZ3NDEKTSV4RRFFQ69G5F00", -1)).toBe("01ARZ3NDEKTSV4RRFFQ69G5EZZ");
  expect(idMs("01ARZ3NDEKTSV4RRFFQ69G5FAV")).toBe(1_469_922_850_259);
});

describe("the parts of bars", () => {
  const bucket = { from: "", to: "", count: 10, groups: { error: 2, info: 5 } };
  const counts = (by: string, groups: string[], grouped: boolean) => {
    const parts = partsOf(by, groups, grouped);
    return parts.map((one) => `${one.name} ${part(bucket, one, parts)}`).filter((text) => !text.endsWith(" 0"));
  };
  it("name what is not counted yet", () => {
    expect(counts("@level", [], true)).toEqual(["error 2", "info 5", "no level 3"]);
    expect(counts("@level", [], false)).toEqual(["error 2", "info 5", "not counted yet 3"]);
    expect(counts("kind", ["info", "error"], true)).toEqual(["info 5", "error 2", "other 3"]);
    expect(counts("", [], true)).toEqual(["all 10"]);
  });
});

describe("the fields of an answer", () => {
  const field = (name: string, records = 100): FieldFacts => ({
    name,
    kind: "field",
    records,
    distinct: 1,
    values: [],
  });
  it("are a tree by their dots", () => {
    const names = (groups: ReturnType<typeof groupFields>): unknown[] =>
      groups.map(({ label, members }) => (members.length === 0 ? label : [label, names([...members])]));
    const fields = ["a", "http.path", "http.status", "http.req.id", "user.id", "b"].map((name) => field(name));
    expect(names(groupFields(fields))).toEqual(["a", ["http", ["path", "status", "req.id"]], "user.id", "b"]);
  });
  it("have odd names that are pieces of text", () => {
    expect(["status", "user.id", "größe", "X-Trace"].some((name) => isOdd(field(name), 100))).toBe(false);
    expect(["?a", "x".repeat(70), "9", '{"a'].every((name) => isOdd(field(name), 100))).toBe(true);
    expect([isOdd(field("rare", 2), 1_000), isOdd(field("rare", 2), 100)]).toEqual([true, false]);
  });
});
