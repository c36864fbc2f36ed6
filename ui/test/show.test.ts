import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { pieces } from "../src/lib/display.ts";
import { fieldsOf } from "../src/lib/fields.ts";
import { highlighter, mayBlowUp } from "../src/lib/highlight.ts";
import { levelOf } from "../src/lib/level.ts";
import { bytes, compact, short as measured, plural, share } from "../src/lib/numbers.ts";
import { clock, duration, full, short, tick } from "../src/lib/times.ts";

/** Pieces as `[style]text`, names of characters in braces, matches in stars. */
const shown = (text: string, hits: [number, number][] = []) =>
  pieces(text, hits)
    .map(({ text, kind, style, hit }) => {
      const named = kind === "mark" ? `{${text}}` : text;
      return `${style === "" ? "" : `[${style}]`}${hit ? `*${named}*` : named}`;
    })
    .join("|");

describe("hostile text", () => {
  it.each([
    ["plain", "plain"],
    ["", ""],
    ["<script>alert(1)</script>", "<script>alert(1)</script>"],
    ["\x1b[31mred\x1b[0m no", "[fg1]red| no"],
    ["\x1b[1;4;32mx\x1b[22my\x1b[mz", "[bold underline fg2]x|[underline fg2]y|z"],
    ["\x1b[97;44mx\x1b[39;49my", "[fg15 bg4]x|y"],
    ["\x1b[38;5;196mx", "[fg9]x"],
    ["\x1b[38;2;0;120;0mx", "[fg2]x"],
    ["\x1b[38;5;244mx", "[fg7]x"],
    ["\x1b[2J\x1b[1;1Hgone", "{ESC[2J}|{ESC[1;1H}|gone"],
    ["\x1b]0;title\x07x", "{ESC]0;title}|x"],
    ["a\u202egnp.exe", "a|{U+202E}|gnp.exe"],
    ["zero\u200bwidth", "zero|{U+200B}|width"],
    ["\0\r\b\x7f", "{␀}|{␍}|{␈}|{␡}"],
    ["tab\tand\nline", "tab\tand\nline"],
    ["\ud800 lone", "{U+D800}| lone"],
    ["😀 ü 漢", "😀 ü 漢"],
    ["\x1b[", "{␛}|["],
  ])("%j", (text, want) => expect(shown(text)).toBe(want));

  it("is marked across colours", () => {
    const text = "ab\x1b[31mcd\x1b[0mef";
    expect(shown(text, [[1, 8]])).toBe("a|*b*|[fg1]*c*|[fg1]d|ef");
  });

  it("of a megabyte is shown in no time", () => {
    const text = "\x1b[31mx\x1b[0m\u202e".repeat(80_000);
    const started = performance.now();
    expect(pieces(text).length).toBe(160_000);
    expect(performance.now() - started).toBeLessThan(2_000);
  });
});

describe("marking matches", () => {
  const marked = (expression: string, text: string) =>
    highlighter(expression)(text).map(([start, end]) => text.slice(start, end));
  it.each([
    ["time", "time after time", ["time", "time"]],
    ["a -b", "a b", ["a"]],
    ['"TIME"i', "Time", ["Time"]],
    ["/t(im|o)e/", "time toe", ["time", "toe"]],
    ["/TIME/i", "time", ["time"]],
    ["/(?i)TIME/", "time", ["time"]],
    ["/(?P<x>a)b/", "ab", ["ab"]],
    ["/(?-u:x)/", "x", []],
    ["level=error", "level=error", ["error"]],
    ["level!=error", "level=error", []],
    ["ab bc", "abc", ["abc"]],
    ["/x*/", "aaa", []],
    ["level=", "level=", []],
    ["@level=error", "level=error", []],
    ["", "x", []],
  ])("%s in %s", (expression, text, want) => expect(marked(expression, text)).toEqual(want));

  it("finds regexes behind the first characters, unless they are bound to a line", () => {
    const text = `${"x".repeat(5_000)} needle`;
    expect(marked("/need?le/", text)).toEqual(["needle"]);
    expect(marked("/^x/", text)).toEqual(["x"]);
  });

  it("never takes long", () => {
    for (const regex of ["(a+)+$", "(a|a)*b", "(a*)*", "(x+x+)+y", "((a{2,})b)*"])
      expect(mayBlowUp(regex), regex).toBe(true);
    for (const regex of ["time(d)? ?out", "a+b+", "(GET|POST) /api", "[(a+)+]x", "\\d{3}"]) {
      expect(mayBlowUp(regex), regex).toBe(false);
    }
    const find = highlighter("/(a+)+$/");
    expect(find(`${"a".repeat(5_000)}!`)).toEqual([]);
  });

  it("gives up a regex that was slow once", () => {
    let now = 0;
    const find = highlighter("/a/", () => {
      now += 11;
      return now;
    });
    expect(find("a").length).toBe(1);
    expect(find("a").length).toBe(0);
  });
});

describe("fields", () => {
  it.each([
    ['{"a":1,"b":{"c":[true,null]},"d":"x\\ny"}', ["a=1", "b.c.0=true", "b.c.1=null", "d=x\ny"]],
    ['{"broken":', []],
    ['at=info a="x \\"y\\" z" b= no c=1', ["at=info", 'a=x "y" z', "b=", "c=1"]],
    ["GET /a?b=c 200", ["/a?b=c"]],
    ["plain text", []],
  ])("%s", (text, want) => {
    const found = fieldsOf(text).map(({ name, value }) => `${name}=${value}`);
    expect(found).toEqual(want);
  });

  // Browsers pass the source text of numbers to a JSON reviver; Node.js 20 does not yet.
  it.skipIf(!("rawJSON" in JSON))("keep the digits of numbers", () => {
    expect(fieldsOf('{"big":9007199254740993,"one":1.0}')).toEqual([
      { name: "big", value: "9007199254740993" },
      { name: "one", value: "1.0" },
    ]);
  });
});

describe("levels", () => {
  const cases = readFileSync(new URL("../../crates/record/src/level/cases.txt", import.meta.url), "utf8");
  const lines = cases.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  it.each(lines)("%s", (line) => {
    const at = line.indexOf(" ");
    const text = line.slice(at + 1).replaceAll("\\e", "\x1b");
    expect(levelOf({}, text) ?? "none").toBe(line.slice(0, at));
  });

  it("are those of labels first", () => {
    expect(levelOf({ app: "web", Severity: "Warning" }, "ERROR")).toBe("warn");
    expect(levelOf({}, "level=info", { a: "fatal", "log.level": "ERROR" })).toBe("error");
    expect(levelOf({ level: "debug" }, "x", { level: "error" })).toBe("debug");
    expect(levelOf({}, "level=info", { severity: "7" })).toBe("info");
  });
});

describe("times", () => {
  const time = "2026-11-20T23:10:00.123456Z";
  it("keep their digits", () => {
    expect(full(time, "UTC")).toBe("2026-11-20 23:10:00.123456 UTC");
    expect(full("2026-11-20T23:10:00.120000Z", "UTC")).toBe("2026-11-20 23:10:00.120 UTC");
    expect(clock(time, "UTC")).toBe("23:10:00.123");
  });
  it("are those of any zone", () => {
    expect(full(time, "Europe/Berlin")).toBe("2026-11-21 00:10:00.123456 +01:00");
    expect(full(time, "America/St_Johns")).toBe("2026-11-20 19:40:00.123456 -03:30");
    // The clock is set back at 01:00 UTC.
    expect(clock("2026-10-25T00:30:00Z", "Europe/Berlin")).toBe("02:30:00.000");
    expect(clock("2026-10-25T01:30:00Z", "Europe/Berlin")).toBe("02:30:00.000");
  });
  it("are short where that says it all", () => {
    const today = Date.parse("2026-11-20T12:00:00Z");
    expect(short("2026-11-20T23:10:00Z", "UTC", today)).toBe("23:10");
    expect(short("2026-11-19T23:10:05Z", "UTC", today)).toBe("2026-11-19 23:10:05");
  });
  it("name places on an axis", () => {
    const at = Date.parse("2026-11-20T23:10:05Z");
    expect(tick(at, [at, at + 86_400_000], "UTC")).toBe("11-20");
    expect(tick(at, [at, at + 600_000], "UTC")).toBe("23:10");
    expect(tick(at, [at, at + 5_000], "UTC")).toBe("23:10:05");
    expect(tick(Date.parse("2026-11-20T00:00:00Z"), [0, 3_600_000], "UTC")).toBe("11-20");
  });
  it("are durations", () => {
    expect([0.004, 5, 65, 7_300, 200_000].map(duration)).toEqual(["4 ms", "5 s", "1 min", "2 h 1 min", "2 d 7 h"]);
  });
});

it("numbers are short or exact", () => {
  expect([0, 999, 1_500, 123_456_789].map(bytes)).toEqual(["0 B", "999 B", "1.5 kB", "123 MB"]);
  expect([1, 12_345, 2_000_000].map(compact)).toEqual(["1", "12.3k", "2.0M"]);
  expect([share(0, 9), share(1, 10_000), share(9_999, 10_000), share(1, 8), share(5, 5)]).toEqual([
    "0%",
    "<0.1%",
    ">99.9%",
    "13%",
    "100%",
  ]);
  // A part is never more than the whole.
  expect(share(9, 8)).toBe("100%");
  expect([1_234.5, 12.345678, 0, 0.00001, 2].map(measured)).toEqual(["1,235", "12.35", "0", "1.00e-5", "2"]);
  expect(plural(1, "match", "matches")).toBe("1 match");
  expect(plural(1_234, "record")).toBe("1,234 records");
});
