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

/** A number whose text would change as a JavaScript number: `9007199254740993`, `1.0`. */
export class Exact {
  constructor(readonly source: string) {}
}

/** Keeps the text of numbers when `JSON.parse` reads them. */
export function exactNumber(_key: string, value: unknown, context?: { source?: string }): unknown {
  const source = context?.source;
  return typeof value === "number" && source !== undefined && String(value) !== source ? new Exact(source) : value;
}
