/**
 * The fields of a record for its reader: by the rules of docs/expressions.md, so that what is shown can be asked for.
 * The node's own reader has the last word; this one shows what it can.
 */
export interface FieldValue {
  name: string;
  value: string;
}

/** Fields of one record that are shown. */
const FIELDS_MAX = 500;

/** Longer records are shown without fields: reading them would make the page hang. */
const TEXT_MAX = 1 << 20;

export function fieldsOf(text: string): FieldValue[] {
  if (text.length > TEXT_MAX) return [];
  return /^\s*\{/.test(text) ? jsonFields(text) : logfmtFields(text);
}

function jsonFields(text: string): FieldValue[] {
  const fields = new Map<string, string>();
  try {
    collect("", JSON.parse(text, exactNumber), fields, 0);
  } catch {
    return [];
  }
  return [...fields].map(([name, value]) => ({ name, value }));
}

/** A number whose text the browser would change: `9007199254740993`, `1.0`. */
class Exact {
  constructor(readonly source: string) {}
}

function exactNumber(_key: string, value: unknown, context?: { source?: string }): unknown {
  const source = context?.source;
  return typeof value === "number" && source !== undefined && String(value) !== source ? new Exact(source) : value;
}

function collect(name: string, value: unknown, fields: Map<string, string>, depth: number) {
  if (fields.size >= FIELDS_MAX) return;
  if (value instanceof Exact) fields.set(name, value.source);
  else if (typeof value === "object" && value !== null && depth < 128) {
    for (const [key, inner] of Object.entries(value)) {
      collect(name === "" ? key : `${name}.${key}`, inner, fields, depth + 1);
    }
  } else if (name !== "") fields.set(name, typeof value === "string" ? value : JSON.stringify(value));
}

function logfmtFields(text: string): FieldValue[] {
  const fields = new Map<string, string>();
  const pairs =
    /(?:^|[ \t\n\f\r])([A-Za-z_@][A-Za-z0-9_.@-]*)=(?:"((?:[^"\\]|\\.)*)"|([^ \t\n\f\r"]*))(?=[ \t\n\f\r]|$)/g;
  for (const [, name, quoted, bare] of text.matchAll(pairs)) {
    if (fields.size >= FIELDS_MAX) break;
    if (name !== undefined) fields.set(name, quoted === undefined ? (bare ?? "") : unquoted(quoted));
  }
  return [...fields].map(([name, value]) => ({ name, value }));
}

function unquoted(quoted: string): string {
  const known: Record<string, string> = { n: "\n", r: "\r", t: "\t" };
  return quoted.replace(/\\(.)/gs, (_, char: string) => known[char] ?? char);
}
