/** The fields of a record for display, read as the node reads them, so that each can be used in a filter. */
import { type FieldValue, readFields } from "./readFields.ts";

export type { FieldValue };

/** Maximum fields shown of one record. */
const FIELDS_MAX = 500;

/** Maximum characters of a record that is parsed for fields, so that the page stays responsive. */
const TEXT_MAX = 1 << 20;

export function fieldsOf(text: string): FieldValue[] {
  if (text.length > TEXT_MAX) return [];
  return readFields(text, FIELDS_MAX);
}

/** What the fields of a record are read from. */
export interface FieldSource {
  labels: Record<string, string>;
  text: string;
  attributes?: Readonly<Record<string, string>> | undefined;
}

/** The value of a field as filters read it: of a label, else an attribute, else a key of the line. */
export function valueOfField({ labels, text, attributes = {} }: FieldSource, name: string): string | undefined {
  if (Object.hasOwn(labels, name)) return labels[name];
  if (Object.hasOwn(attributes, name)) return attributes[name];
  return fieldsOf(text).findLast((field) => field.name === name)?.value;
}

/** The attributes of a record as rows of a tree. */
export function attributeNodes({ attributes = {} }: FieldSource): TreeNode[] {
  return Object.entries(attributes).map(([name, value]) => ({
    key: name,
    name,
    kind: kindOf(value),
    value,
    members: [],
  }));
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
  if (/^\s*\{/.test(text)) {
    try {
      return membersOf("", JSON.parse(text, exactNumber), 0, { left: NODES_MAX });
    } catch {
      // The record was cut, or is not quite JSON: it has the fields up to there.
    }
  }
  return fieldsOf(text).map(({ name, value }) => ({ key: name, name, kind: kindOf(value), value, members: [] }));
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

/** A number whose text would change as a JavaScript number: `9007199254740993`, `1.0`. */
export class Exact {
  constructor(readonly source: string) {}
}

/** Keeps the text of numbers when `JSON.parse` reads them. */
export function exactNumber(_key: string, value: unknown, context?: { source?: string }): unknown {
  const source = context?.source;
  return typeof value === "number" && source !== undefined && String(value) !== source ? new Exact(source) : value;
}
