import { describe, expect, it } from "vitest";
import cases from "../../crates/record/src/expr/cases.json" with { type: "json" };
import {
  columnOffset,
  errorColumn,
  fieldTerm,
  negated,
  quoteText,
  type Token,
  tokenize,
  wanted,
  withoutTerm,
  withTerm,
} from "../src/lib/expression.ts";

const kinds = (expression: string) =>
  tokenize(expression)
    .map(({ kind }) => kind)
    .join(" ");

interface GrammarCase {
  input: string;
  tokens: string[][];
  canonical?: string;
  highlights?: string[];
  error?: string;
}

describe("the table of cases that the node is tested with", () => {
  it.each(cases as GrammarCase[])("$input", ({ input, tokens, canonical, highlights, error }) => {
    const all = tokenize(input);
    const firstError = all.findIndex(({ kind }) => kind === "error");
    const read = firstError < 0 ? all : all.slice(0, firstError + 1);
    const source = ({ kind, start, end }: Token) => input.slice(start, kind === "error" ? undefined : end);
    const value = ({ kind, text, regex }: Token) => (kind === "text" ? [text] : kind === "regex" ? [regex] : []);
    expect(read.map((token) => [token.kind, source(token), ...value(token)])).toEqual(tokens);
    if (error === undefined) {
      expect(wanted(input).map(source)).toEqual(highlights);
      expect(tokenize(canonical ?? "").some(({ kind }) => kind === "error")).toBe(false);
    } else {
      const offset = columnOffset(input, errorColumn(error) ?? 0);
      const failed = read.at(-1);
      const within = failed?.kind === "error" && offset >= failed.start && offset <= failed.end;
      expect(within || firstError < 0, "the column is in the token that failed").toBe(true);
    }
  });
});

describe("existence and levels", () => {
  it("tells a star from a quoted star", () => {
    const existence = (expression: string) => tokenize(expression)[0]?.field?.isExistence ?? false;
    expect(["a=*", "a!=*", 'a="*"', "a=**"].map(existence)).toEqual([true, true, false, false]);
  });

  it("tells the line from a field of its name", () => {
    const isLine = (expression: string) => tokenize(expression)[0]?.field?.isLine ?? false;
    expect(["_line=x", "_line=", "_line!~/x/", '"_line"=x', "_lines=x"].map(isLine)).toEqual([
      true,
      true,
      true,
      false,
      false,
    ]);
    expect([fieldTerm("_line", "=", "x"), negated("_line=x"), negated("_line=~/x/")]).toEqual([
      '"_line"=x',
      "_line!=x",
      "_line!~/x/",
    ]);
  });

  it("tells the level from a field of its name", () => {
    const isLevel = (expression: string) => tokenize(expression)[0]?.field?.isLevel ?? false;
    expect(["@level=error", "@level=", '"@level"=error', "@levels=x"].map(isLevel)).toEqual([true, true, false, false]);
  });
});

describe("tokens", () => {
  it.each([
    ["", ""],
    ["a b", "text text"],
    ["a AND b OR NOT c", "text and text or not text"],
    ["-a - a-b -)", "not text text text text close"],
    ['"a b"i "c"', "text text"],
    ['"a b', "error"],
    ['"a"x', "error"],
    ["/a(b)?/i c", "regex text"],
    ["/a\\/b/", "regex"],
    ["/a", "error"],
    ["level=error status>=500 path=~/^.api/ x!~/y/i", "field field field field"],
    ["level= status>=high path=~x", "error error error"],
    ['"odd name"="a b"i', "field"],
    ["a/b=c =x 9=1", "text text text"],
    ["(a OR b) c", "open text or text close text"],
    ["path=/api", "field"],
  ])("%s", (expression, want) => expect(kinds(expression)).toBe(want));

  it("say where fields and values are", () => {
    const [token] = tokenize('user.id!="a \\"b\\""');
    expect(token?.field).toEqual({ name: "user.id", operator: "!=", value: 'a "b"', operatorAt: 7, valueAt: 9 });
  });

  it("cover everything that is no space", () => {
    const expression = ' a  ("b c"i OR d=~/e f/i) -g<2 "open';
    const covered = tokenize(expression).map(({ start, end }) => expression.slice(start, end));
    expect(covered).toEqual(["a", "(", '"b c"i', "OR", "d=~/e f/i", ")", "-", "g<2", '"open']);
  });
});

describe("terms", () => {
  it.each([
    ["timeout", "timeout"],
    ["two words", '"two words"'],
    ["AND", '"AND"'],
    ["-a", '"-a"'],
    ["/api", '"/api"'],
    ["a=b", '"a=b"'],
    ["a/b=c", "a/b=c"],
    ['say "hi"\\', '"say \\"hi\\"\\\\"'],
    ["tab\there\u0001", '"tab\\there\\x01"'],
    ["", '""'],
    ["(", '"("'],
  ])("%j in an expression", (text, want) => {
    expect(quoteText(text)).toBe(want);
    expect(tokenize(want)).toMatchObject([{ kind: "text", text }]);
  });

  it.each([
    ["level", "error", "level=error"],
    ["path", "/api/cart", "path=/api/cart"],
    ["msg", "two words", 'msg="two words"'],
    ["odd name", "", '"odd name"=""'],
    ["9", "x", '"9"=x'],
  ])("field %s of %j", (name, value, want) => {
    expect(fieldTerm(name, "=", value)).toBe(want);
    expect(tokenize(want)).toMatchObject([{ kind: "field", field: { name, value } }]);
  });

  it.each([
    ["", "a", "a"],
    ["a", "b", "a b"],
    ["a OR b", "c", "(a OR b) c"],
    ["(a OR b)", "c", "(a OR b) c"],
    ["a b", "a", "a b"],
    ["a -b", "b", "a b"],
    ["a level!=info", "level=info", "a level=info"],
    ["-a", "a", "a"],
    ["a AND -b AND c", "b", "a AND c b"],
  ])("%s with %s", (expression, term, want) => expect(withTerm(expression, term)).toBe(want));

  it.each([
    ["a", "-a"],
    ["-a", "a"],
    ["NOT a", "a"],
    ["a=b", "a!=b"],
    ["a!~/b/", "a=~/b/"],
    ["a<1", "-a<1"],
    ["(a OR b)", "-(a OR b)"],
  ])("the opposite of %s", (term, want) => expect(negated(term)).toBe(want));

  it("are taken out only where they stand beside others", () => {
    expect(withoutTerm("a b c", "b")).toBe("a c");
    expect(withoutTerm("a OR b", "b")).toBe("a OR b");
    expect(withoutTerm("(a b) c", "b")).toBe("(a b) c");
    expect(withoutTerm("(a b) c", "(a b)")).toBe("c");
  });
});

it("what matching records have is wanted, what they must not have is not", () => {
  const texts = (expression: string) => wanted(expression).map(({ start, end }) => expression.slice(start, end));
  expect(texts("a -b NOT (c OR -d) x=1 y!=2")).toEqual(["a", "-d".slice(1), "x=1"]);
  expect(texts("NOT NOT a")).toEqual(["a"]);
});

it("columns of errors are characters", () => {
  expect(errorColumn("q: column 7: expected a value")).toBe(7);
  expect(errorColumn("too many queries")).toBeUndefined();
  expect(columnOffset("🪚 a", 3)).toBe(3);
});
