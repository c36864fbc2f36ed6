import { fieldTerm, type Operator, tokenize } from "./expression.ts";
import { LEVELS } from "./level.ts";
import { equals } from "./terms.ts";
import { LEVEL_FIELD } from "./url.ts";

/** A field or label of the current answer. */
export interface FieldFacts {
  name: string;
  kind: "label" | "attribute" | "field" | "derived";
  records: number;
  distinct: number | null;
  values: FieldCount[];
  /** If all sampled values are numbers. */
  numbers?: { min: number; avg: number; max: number };
}

/** A value of a field and the records that have it. */
export interface FieldCount {
  value: string;
  count: number;
  /** Whether only the start of a long value is known. */
  cut?: boolean;
}

/** A completion that replaces `start..end` in the box. */
export interface Completion {
  label: string;
  kind: "label" | "attribute" | "field" | "derived" | "value" | "keyword" | "history" | "saved";
  detail: string;
  insert: string;
  start: number;
  end: number;
}

const EQUALITY: readonly Operator[] = ["=", "!="];
const LEVEL_OPERATORS: readonly Operator[] = ["=", "!=", ">=", "<=", ">", "<"];

/** Maximum completions shown. */
const SHOWN_MAX = 12;

/** Maximum remembered fields, and values of each. */
const FIELDS_KEPT = 400;
const VALUES_KEPT = 40;

/**
 * Merges the fields of an answer into the known ones. A half-typed expression returns few fields or none, so older ones stay,
 * after the new ones.
 */
export function learned(known: readonly FieldFacts[], fresh: readonly FieldFacts[]): FieldFacts[] {
  const before = new Map(known.map((field) => [field.name, field]));
  const now = fresh.map((field) => {
    const old = before.get(field.name);
    before.delete(field.name);
    const have = new Set(field.values.map(({ value }) => value));
    const more = (old?.values ?? []).filter(({ value }) => !have.has(value));
    const distinct = old?.distinct === null ? null : field.distinct && Math.max(field.distinct, old?.distinct ?? 0);
    return { ...field, distinct, values: [...field.values, ...more].slice(0, VALUES_KEPT) };
  });
  return [...now, ...before.values()].slice(0, FIELDS_KEPT);
}

/** The level is known before the first answer. */
const LEVEL: FieldFacts = {
  name: LEVEL_FIELD,
  kind: "derived",
  records: 0,
  distinct: LEVELS.length + 1,
  values: [...LEVELS, "none"].map((value) => ({ value, count: 0 })),
};

/** The fields, with all levels whether the answer has them or not. */
function withLevel(fields: readonly FieldFacts[]): FieldFacts[] {
  const known = fields.find(({ name }) => name === LEVEL_FIELD);
  const counts = new Map(known?.values.map(({ value, count }) => [value, count]));
  const values = LEVEL.values.map(({ value }) => ({ value, count: counts.get(value) ?? 0 }));
  return [{ ...LEVEL, values }, ...fields.filter(({ name }) => name !== LEVEL_FIELD)];
}

/** Completions at the caret, most likely first. */
export function complete(
  expression: string,
  caret: number,
  known: readonly FieldFacts[],
  history: readonly string[],
): Completion[] {
  const fields = withLevel(known);
  if (expression.trim() === "") {
    const past = history.map((query) => whole(query, "history", expression.length));
    return [...past.slice(0, 6), ...names("", caret, caret, fields)].slice(0, SHOWN_MAX);
  }
  const token = tokenize(expression).find((token) => token.start < caret && caret <= token.end);
  if (token === undefined) return [];
  const test = token.field;
  const operators = test?.name === LEVEL_FIELD ? LEVEL_OPERATORS : EQUALITY;
  if (test !== undefined && caret >= test.valueAt && operators.includes(test.operator)) {
    const typed = expression.slice(test.valueAt, caret).replace(/^"/, "").toLowerCase();
    const values = fields.find((field) => field.name === test.name)?.values ?? [];
    const fitting = values.filter(
      ({ value, cut }) => cut !== true && value.toLowerCase().includes(typed) && value.toLowerCase() !== typed,
    );
    const before = expression.slice(token.start, test.operatorAt);
    return fitting.slice(0, SHOWN_MAX).map(({ value, count }) => ({
      label: value,
      kind: "value",
      detail: count === 0 ? "" : `${count}`,
      insert: `${before}${test.operator}${equals("x", value).slice(2)} `,
      start: token.start,
      end: token.end,
    }));
  }
  if (token.kind !== "text" || expression.charAt(token.start) === '"') return [];
  const typed = expression.slice(token.start, caret);
  const past = history
    .filter((query) => query !== expression && query.startsWith(expression.slice(0, caret)))
    .map((query) => whole(query, "history", expression.length));
  return [...names(typed, token.start, token.end, fields), ...keywords(typed, token.start, token.end), ...past].slice(
    0,
    SHOWN_MAX,
  );
}

function whole(query: string, kind: "history" | "saved", end: number): Completion {
  return { label: query, kind, detail: "before", insert: query, start: 0, end };
}

function names(typed: string, start: number, end: number, fields: readonly FieldFacts[]): Completion[] {
  const low = typed.toLowerCase();
  const place = (name: string) => name.toLowerCase().indexOf(low);
  return fields
    .filter(({ name }) => place(name) >= 0)
    .sort((a, b) => Math.sign(place(a.name)) - Math.sign(place(b.name)))
    .slice(0, 8)
    .map(({ name, kind, distinct }) => ({
      label: name,
      kind,
      detail: distinct === null ? "many values" : distinct === 1 ? "1 value" : `${distinct} values`,
      insert: fieldTerm(name, "=", "x").slice(0, -1),
      start,
      end,
    }));
}

function keywords(typed: string, start: number, end: number): Completion[] {
  if (typed.length < 2) return [];
  return ["AND", "OR", "NOT"]
    .filter((word) => word.startsWith(typed.toUpperCase()) && word !== typed)
    .map((word) => ({ label: word, kind: "keyword", detail: "", insert: `${word} `, start, end }));
}
