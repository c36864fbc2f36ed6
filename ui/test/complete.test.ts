import { describe, expect, it } from "vitest";
import { complete, type FieldFacts, learned } from "../src/lib/complete.ts";

const fields: FieldFacts[] = [
  {
    name: "app",
    kind: "label",
    records: 9,
    distinct: 2,
    values: [
      { value: "web", count: 6 },
      { value: "two words", count: 3 },
    ],
  },
  { name: "level", kind: "field", records: 9, distinct: 1, values: [{ value: "error", count: 9 }] },
  { name: "odd name", kind: "field", records: 1, distinct: null, values: [] },
];
const history = ["level=error timeout", "app=web"];

/** The completions at `|`, and the text after choosing the first. */
function offered(input: string): [labels: string, chosen: string | undefined] {
  const caret = input.indexOf("|");
  const expression = input.replace("|", "");
  const found = complete(expression, caret, fields, history);
  const first = found[0];
  const chosen = first && expression.slice(0, first.start) + first.insert + expression.slice(first.end);
  return [found.map(({ label }) => label).join(), chosen];
}

describe("completions", () => {
  it.each([
    ["|", "level=error timeout,app=web,@level,app,level,odd name", "level=error timeout"],
    ["le|", "level,@level,level=error timeout", "level="],
    ["a lev|", "level,@level", "a level="],
    ["odd|", "odd name", '"odd name"='],
    ["level=|", "error", "level=error "],
    ["app=t|", "two words", 'app="two words" '],
    ['app="tw|', "two words", 'app="two words" '],
    ["app!=w|", "web,two words", "app!=web "],
    ["level=error|", "", undefined],
    ["a o|", "odd name", 'a "odd name"='],
    ["a or|", "OR", "a OR "],
    ["status>=4|", "", undefined],
    ["/regex|/", "", undefined],
    ["a |", "", undefined],
    ["lev| b", "level,@level,level=error timeout", "level= b"],
    ["@|", "@level", "@level="],
    ["@level=|", "fatal,error,warn,info,debug,trace,none", "@level=fatal "],
    ["@level>=wa|", "warn", "@level>=warn "],
  ])("%s", (input, labels, chosen) => expect(offered(input)).toEqual([labels, chosen]));
});

it("what was known of fields stays while something is half typed", () => {
  const level = fields[1] as FieldFacts;
  const warn: FieldFacts = { ...level, values: [{ value: "warn", count: 1 }] };
  expect(learned(fields, [])).toEqual(fields);
  const names = (list: FieldFacts[]) => list.map(({ name, values }) => `${name} ${values.map(({ value }) => value)}`);
  expect(names(learned(fields, [warn]))).toEqual(["level warn,error", "app web,two words", "odd name "]);
});
