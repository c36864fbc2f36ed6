import { describe, expect, it } from "vitest";
import cases from "../../crates/scan/src/fields/cases.json" with { type: "json" };
import { fieldTerm, tokenize } from "../src/lib/expression.ts";
import { fieldsOf } from "../src/lib/fields.ts";

interface FieldsCase {
  record: string;
  fields: string[][];
  terms: string[];
}

describe("the table of cases that the node is tested with", () => {
  it.each(cases as FieldsCase[])("$record", ({ record, fields, terms }) => {
    const found = fieldsOf(record);
    expect(found.map(({ name, value }) => [name, value])).toEqual(fields);
    const spelt = found.map(({ name, value }) => fieldTerm(name, "=", value));
    expect(spelt).toEqual(terms);
    const read = spelt.map((term) => tokenize(term)[0]?.field);
    expect(read.map((test) => [test?.name, test?.value])).toEqual(fields);
  });
});
