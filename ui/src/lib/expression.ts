/**
 * Splits filter expressions into tokens, to colour and complete them, to highlight matches and to add terms. Invalid
 * tokens have the kind `error`; the node reports errors of syntax. docs/expressions.md describes the grammar, and
 * crates/record/src/expr/cases.json is a table of cases that the tests of the node read too.
 */

import { levelNamed } from "./level.ts";

export type TokenKind = "open" | "close" | "and" | "or" | "not" | "text" | "regex" | "field" | "error";

/** A token of an expression, from `start` up to `end`. */
export interface Token {
  kind: TokenKind;
  start: number;
  end: number;
  /** For texts: the text to find. */
  text?: string;
  /** For regexes, and fields compared with one: the source. */
  regex?: string;
  /** Whether letters match in either case. */
  anyCase?: boolean;
  /** For fields. */
  field?: FieldTest;
}

export interface FieldTest {
  name: string;
  operator: Operator;
  /** The value without quotes, or the source of a regex. */
  value: string;
  /** The offsets of the operator and the value. */
  operatorAt: number;
  valueAt: number;
  /** Whether the value is a bare star: the test is that the field exists, or does not. */
  isExistence?: boolean;
  /** Whether the test is of the level that is derived from a record, and not of a field. */
  isLevel?: boolean;
  /** Whether the test is of the line of a record without its attributes, and not of a field. */
  isLine?: boolean;
}

const OPERATORS = ["!=", "!~", "=~", ">=", "<=", "=", ">", "<"] as const;
export type Operator = (typeof OPERATORS)[number];

const SPACE = /[ \t\n\r\f\v]/;
const NAME = /^[\p{Alphabetic}_@][\p{Alphabetic}\p{N}_.@-]*/u;
const LEVEL_NAME = "@level";
const LINE_NAME = "_line";
/** A number, a duration or a size. An exponent has 15 significant digits at most. */
const LIMIT = new RegExp(
  [
    /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?0*\d{1,15})?$/,
    /^[+-]?(\d+(\.\d+)?(ns|[u\u00b5\u03bcm]?s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?)(?=\d|$))+$/,
    /^[+-]?\d+(\.\d+)?([bB]|[kKMgGtTpP]|[kKmMgGtTpP][iI]?[bB])$/,
  ]
    .map(({ source }) => source)
    .join("|"),
);

/** The tokens of an expression in order, separated by white space. */
export function tokenize(input: string): Token[] {
  const tokens: Token[] = [];
  let at = 0;
  while (at < input.length) {
    if (SPACE.test(input.charAt(at))) {
      at += 1;
      continue;
    }
    const token = next(input, at);
    tokens.push(token);
    at = Math.max(token.end, at + 1);
  }
  return tokens;
}

function next(input: string, start: number): Token {
  const rest = input.slice(start);
  const char = rest.charAt(0);
  if (char === "(") return { kind: "open", start, end: start + 1 };
  if (char === ")") return { kind: "close", start, end: start + 1 };
  if (char === "-" && /^-[^ \t\n\r\f\v)]/.test(rest)) return { kind: "not", start, end: start + 1 };
  if (char === '"') return quotedTerm(input, start);
  if (char === "/") return regexTerm(input, start, start);
  return word(input, start);
}

function word(input: string, start: number): Token {
  const bare = bareLength(input, start);
  const text = input.slice(start, start + bare);
  const name = NAME.exec(text)?.[0] ?? "";
  const operator = name === "" ? undefined : operatorAt(text, name.length);
  if (operator !== undefined) {
    const test = name === LEVEL_NAME ? levelTest : name === LINE_NAME ? lineTest : field;
    return test(input, start, name, start + name.length, operator);
  }
  const end = start + bare;
  if (text === "AND") return { kind: "and", start, end };
  if (text === "OR") return { kind: "or", start, end };
  if (text === "NOT") return { kind: "not", start, end };
  return { kind: "text", start, end, text, anyCase: false };
}

function quotedTerm(input: string, start: number): Token {
  const quoted = readQuoted(input, start);
  if (quoted === undefined) return { kind: "error", start, end: input.length };
  const operator = operatorAt(input, quoted.end);
  if (operator !== undefined) {
    if (!quoted.isUtf8) return { kind: "error", start, end: input.length };
    return field(input, start, quoted.text, quoted.end, operator);
  }
  return ended(input, quoted.end, (end, anyCase) => ({ kind: "text", start, end, text: quoted.text, anyCase }), start);
}

function regexTerm(input: string, start: number, from: number): Token {
  const closing = regexEnd(input, from);
  if (closing === undefined) return { kind: "error", start, end: input.length };
  const regex = input.slice(from + 1, closing).replaceAll("\\/", "/");
  return ended(input, closing + 1, (end, anyCase) => ({ kind: "regex", start, end, regex, anyCase }), start);
}

function field(input: string, start: number, name: string, operatorAt: number, operator: Operator): Token {
  const valueAt = operatorAt + operator.length;
  const test = (value: string): FieldTest => ({ name, operator, value, operatorAt, valueAt });
  if (operator === "=~" || operator === "!~") {
    if (input.charAt(valueAt) !== "/") return unfinished(input, start, valueAt, test(""));
    const token = regexTerm(input, start, valueAt);
    if (token.kind === "error") return { ...token, field: test("") };
    return { ...token, kind: "field", field: test(token.regex ?? "") };
  }
  const wantsLimit = /^[<>]/.test(operator);
  if (input.charAt(valueAt) === '"' && !wantsLimit) {
    const quoted = readQuoted(input, valueAt);
    if (quoted === undefined) {
      return { kind: "error", start, end: input.length, field: test(input.slice(valueAt + 1)) };
    }
    const make = (end: number, anyCase: boolean): Token => ({
      kind: "field",
      start,
      end,
      anyCase,
      field: test(quoted.text),
    });
    return ended(input, quoted.end, make, start);
  }
  const length = bareLength(input, valueAt);
  const value = input.slice(valueAt, valueAt + length);
  if (length === 0 || (wantsLimit && !LIMIT.test(value))) return unfinished(input, start, valueAt, test(value));
  const tested = value === "*" ? { ...test(value), isExistence: true } : test(value);
  return { kind: "field", start, end: valueAt + length, anyCase: false, field: tested };
}

/** A test of the level. */
function levelTest(input: string, start: number, name: string, operatorAt: number, operator: Operator): Token {
  const valueAt = operatorAt + operator.length;
  const quoted = input.charAt(valueAt) === '"' ? readQuoted(input, valueAt) : undefined;
  const end = quoted?.end ?? valueAt + bareLength(input, valueAt);
  const value = quoted?.text ?? input.slice(valueAt, end);
  const isExistence = quoted === undefined && value === "*";
  const test: FieldTest = { name, operator, value, operatorAt, valueAt, isExistence, isLevel: true };
  const isEquality = operator === "=" || operator === "!=";
  const isKnown = levelNamed(value) !== undefined || (isEquality && (isExistence || value.toLowerCase() === "none"));
  const isUnclosed = input.charAt(valueAt) === '"' && quoted === undefined;
  if (isUnclosed) return { kind: "error", start, end: input.length, field: test };
  if (!isKnown || operator === "=~" || operator === "!~") return { kind: "error", start, end, field: test };
  if (quoted === undefined) return { kind: "field", start, end, anyCase: false, field: test };
  return ended(input, end, (end) => ({ kind: "field", start, end, anyCase: false, field: test }), start);
}

/** A test of the line: whether it contains a text, or a regex matches in it. Every line exists, and none is compared. */
function lineTest(input: string, start: number, name: string, operatorAt: number, operator: Operator): Token {
  const token = field(input, start, name, operatorAt, operator);
  if (token.field === undefined) return token;
  const test = { ...token.field, isExistence: false, isLine: true };
  const isRefused = token.field.isExistence === true || /^[<>]/.test(operator);
  return isRefused ? { kind: "error", start, end: token.end, field: test } : { ...token, field: test };
}

function unfinished(input: string, start: number, valueAt: number, test: FieldTest): Token {
  return { kind: "error", start, end: valueAt + bareLength(input, valueAt), field: test };
}

/** A token that must end after its closing delimiter and an optional `i`. */
function ended(input: string, at: number, make: (end: number, anyCase: boolean) => Token, start: number): Token {
  const length = bareLength(input, at);
  const suffix = input.slice(at, at + length);
  if (suffix === "" || suffix === "i") return make(at + length, suffix === "i");
  return { kind: "error", start, end: at + length };
}

function operatorAt(input: string, at: number): Operator | undefined {
  return OPERATORS.find((operator) => input.startsWith(operator, at));
}

/** The number of characters up to the next space or parenthesis. */
function bareLength(input: string, at: number): number {
  const end = input.slice(at).search(/[ \t\n\r\f\v()]/);
  return end < 0 ? input.length - at : end;
}

/** The text between quotes, and the offset after them. Escapes can be any bytes, so the text is decoded from UTF-8. */
function readQuoted(input: string, start: number): { text: string; end: number; isUtf8: boolean } | undefined {
  const bytes: number[] = [];
  const encoder = new TextEncoder();
  for (let at = start + 1; at < input.length; at += 1) {
    const char = input.charAt(at);
    if (char === '"') return { ...decode(bytes), end: at + 1 };
    if (char !== "\\") {
      const codePoint = String.fromCodePoint(input.codePointAt(at) ?? 0);
      bytes.push(...encoder.encode(codePoint));
      at += codePoint.length - 1;
      continue;
    }
    at += 1;
    const escaped = input.charAt(at);
    const hex = /^x([0-9a-fA-F]{2})/.exec(input.slice(at))?.[1];
    const known = ESCAPES[escaped];
    if (hex !== undefined) {
      bytes.push(Number.parseInt(hex, 16));
      at += 2;
    } else if (known !== undefined) bytes.push(known.charCodeAt(0));
    else return undefined;
  }
  return undefined;
}

const ESCAPES: Record<string, string> = { '"': '"', "\\": "\\", n: "\n", r: "\r", t: "\t", "0": "\0" };

function decode(bytes: number[]): { text: string; isUtf8: boolean } {
  const encoded = new Uint8Array(bytes);
  try {
    return { text: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(encoded), isUtf8: true };
  } catch {
    return { text: new TextDecoder("utf-8", { ignoreBOM: true }).decode(encoded), isUtf8: false };
  }
}

function regexEnd(input: string, start: number): number | undefined {
  for (let at = start + 1; at < input.length; at += 1) {
    const char = input.charAt(at);
    if (char === "\\") at += 1;
    else if (char === "/") return at;
  }
  return undefined;
}

/** A text in the syntax of expressions: bare if that is equivalent, else in quotes. */
export function quoteText(text: string): string {
  const bare = /^[^\s()"/-][^\s()]*$/.test(text) && !/^(AND|OR|NOT)$/.test(text);
  const name = NAME.exec(text)?.[0] ?? "";
  const isField = name !== "" && operatorAt(text, name.length) !== undefined;
  return bare && !isField && isPlain(text) ? text : quote(text);
}

/**
 * A term that compares a field with a value by `=` or `!=`, spelt as the node spells it. The name `@level` is that of the
 * derived level; a field named `_line` is quoted, because without quotes it is the line.
 */
export function fieldTerm(name: string, operator: "=" | "!=", value: string): string {
  const bareName = /^[A-Za-z_@][A-Za-z0-9_.@-]*$/.test(name) && name !== LINE_NAME;
  const bareValue = /^[A-Za-z0-9_.:/@-]+$/.test(value);
  return `${bareName ? name : quote(name)}${operator}${bareValue ? value : quote(value)}`;
}

function isPlain(text: string): boolean {
  return !/[\u0000-\u001f\u007f-\u009f]/.test(text);
}

function quote(text: string): string {
  const escaped = text.replace(/["\\\u0000-\u001f\u007f-\u009f]/g, (char) => {
    const known: Record<string, string> = {
      '"': '\\"',
      "\\": "\\\\",
      "\n": "\\n",
      "\r": "\\r",
      "\t": "\\t",
      "\0": "\\0",
    };
    const hex = (byte: number) => `\\x${byte.toString(16).toUpperCase().padStart(2, "0")}`;
    return known[char] ?? [...new TextEncoder().encode(char)].map(hex).join("");
  });
  return `"${escaped}"`;
}

/** The expression with a term added by AND, unless it has that term. */
export function withTerm(expression: string, term: string): string {
  const trimmed = expression.trim();
  if (trimmed === "") return term;
  const without = withoutTerm(trimmed, negated(term));
  if (without === "") return term;
  if (hasTerm(without, term)) return without;
  return `${hasTopLevelOr(without) ? `(${without})` : without} ${term}`;
}

/** The negation of a term. */
export function negated(term: string): string {
  const token = tokenize(term)[0];
  if (token?.kind === "not") return term.slice(token.end).trimStart();
  if (token?.kind === "field" && token.field !== undefined) {
    const { operator, operatorAt, valueAt } = token.field;
    const opposite = ({ "=": "!=", "!=": "=", "=~": "!~", "!~": "=~" } as Record<string, string>)[operator];
    if (opposite !== undefined) return term.slice(0, operatorAt) + opposite + term.slice(valueAt);
  }
  return `-${term}`;
}

function hasTerm(expression: string, term: string): boolean {
  return conjuncts(expression).some((part) => part.text === term);
}

/** The expression without a top-level term; unchanged if it has none. */
export function withoutTerm(expression: string, term: string): string {
  const found = conjuncts(expression).find((part) => part.text === term);
  if (found === undefined) return expression;
  const before = expression
    .slice(0, found.start)
    .replace(/(?:^|\s+)AND\s+$/, "")
    .trim();
  const behind = expression.slice(found.end).trim();
  return before === "" ? behind.replace(/^AND\s+/, "") : `${before} ${behind}`.trim();
}

/** The top-level terms joined by AND; empty if the expression has a top-level OR. */
function conjuncts(expression: string): { text: string; start: number; end: number }[] {
  if (hasTopLevelOr(expression)) return [];
  const parts: { text: string; start: number; end: number }[] = [];
  let depth = 0;
  let from: number | undefined;
  for (const token of tokenize(expression)) {
    if (token.kind === "close") depth -= 1;
    if (depth === 0 && token.kind !== "open" && token.kind !== "and") {
      from ??= token.start;
      if (token.kind !== "not") {
        parts.push({ text: expression.slice(from, token.end), start: from, end: token.end });
        from = undefined;
      }
    } else if (token.kind === "open" && depth === 0) {
      from ??= token.start;
    }
    if (token.kind === "open") depth += 1;
  }
  return parts;
}

function hasTopLevelOr(expression: string): boolean {
  let depth = 0;
  return tokenize(expression).some((token) => {
    if (token.kind === "open") depth += 1;
    if (token.kind === "close") depth -= 1;
    return token.kind === "or" && depth === 0;
  });
}

/** The texts, regexes and fields that a matching record can contain, without those under a NOT. */
export function wanted(expression: string): Token[] {
  const stack: boolean[] = [];
  let negative = false;
  let pending = false;
  const found: Token[] = [];
  for (const token of tokenize(expression)) {
    if (token.kind === "not") pending = !pending;
    else if (token.kind === "open") {
      stack.push(negative);
      negative = negative !== pending;
      pending = false;
    } else if (token.kind === "close") negative = stack.pop() ?? false;
    else {
      const isTerm = token.kind === "text" || token.kind === "regex" || token.kind === "field";
      const opposite = token.field?.operator === "!=" || token.field?.operator === "!~";
      if (isTerm && negative === pending && !opposite) found.push(token);
      pending = false;
    }
  }
  return found;
}

/** The column of an error of the node, from 1, in characters and not in UTF-16 units. */
export function errorColumn(message: string): number | undefined {
  const column = /\bcolumn (\d+):/.exec(message)?.[1];
  return column === undefined ? undefined : Number(column);
}

/** The offset of a column in an expression. */
export function columnOffset(expression: string, column: number): number {
  return [...expression].slice(0, column - 1).join("").length;
}
