/**
 * The fields of a record for display, by the rules of docs/expressions.md, so that each can be used in a filter. The node's
 * parser decides; this one is an approximation.
 */
export interface FieldValue {
  name: string;
  value: string;
}

/** Maximum fields shown of one record. */
const FIELDS_MAX = 500;

/** Maximum characters of a record that is parsed for fields, so that the page stays responsive. */
const TEXT_MAX = 1 << 20;

export function fieldsOf(text: string): FieldValue[] {
  if (text.length > TEXT_MAX) return [];
  return /^\s*\{/.test(text) ? jsonFields(text) : logfmtFields(text);
}

/** A value of a JSON record, with its members. */
export interface TreeNode {
  key: string;
  /** The name in filters: the keys from the top, joined by dots. */
  name: string;
  kind: "text" | "number" | "boolean" | "null" | "object" | "array";
  /** The value of a field; of an object or array, the number of its members. */
  value: string;
  members: readonly TreeNode[];
}

/** Maximum values of a tree. */
const NODES_MAX = 2_000;

/** The values of a record as a tree: JSON by its nesting, logfmt as one level. */
export function treeOf(text: string): TreeNode[] {
  if (text.length > TEXT_MAX) return [];
  if (!/^\s*\{/.test(text)) {
    return logfmtFields(text).map(({ name, value }) => ({ key: name, name, kind: kindOf(value), value, members: [] }));
  }
  try {
    const budget = { left: NODES_MAX };
    return membersOf("", JSON.parse(text, exactNumber), 0, budget);
  } catch {
    return [];
  }
}

function kindOf(value: string): TreeNode["kind"] {
  if (/^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(value)) return "number";
  return value === "true" || value === "false" ? "boolean" : "text";
}

function membersOf(prefix: string, value: object, depth: number, budget: { left: number }): TreeNode[] {
  const members: TreeNode[] = [];
  for (const [key, inner] of Object.entries(value) as [string, unknown][]) {
    if (budget.left <= 0) break;
    budget.left -= 1;
    const name = prefix === "" ? key : `${prefix}.${key}`;
    if (inner instanceof Exact) members.push({ key, name, kind: "number", value: inner.source, members: [] });
    else if (typeof inner === "object" && inner !== null && depth < 128) {
      const nested = membersOf(name, inner, depth + 1, budget);
      const isArray = Array.isArray(inner);
      const size = Object.keys(inner).length;
      members.push({ key, name, kind: isArray ? "array" : "object", value: String(size), members: nested });
    } else {
      const kind =
        inner === null ? "null" : typeof inner === "string" ? "text" : (typeof inner as "number" | "boolean");
      members.push({ key, name, kind, value: typeof inner === "string" ? inner : JSON.stringify(inner), members: [] });
    }
  }
  return members;
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

/** A number whose text would change as a JavaScript number: `9007199254740993`, `1.0`. */
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
