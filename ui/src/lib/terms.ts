/** Terms for the values of records and answers. Each matches at least the records that it was taken from. */
import type { FieldCount, FieldFacts } from "./complete.ts";
import { fieldTerm, quoteText } from "./expression.ts";
import type { FieldSource } from "./fields.ts";
import { LEVEL_FIELD } from "./url.ts";

/** Characters of a longer value that a term has, so that requests stay short. */
const CHARS_MAX = 200;

/** Characters of a value that is compared as a whole. */
const WHOLE_MAX = 1_000;

/** A term that compares a field with a value. */
export function equals(name: string, value: string): string {
  // Without quotes these are an operator, and the test for any value.
  if (value !== "*" && !value.startsWith("~")) return fieldTerm(name, "=", value);
  return `${fieldTerm(name, "=", `${value} `).slice(0, -2)}"`;
}

/** A term for a field of a record, which the record matches; `undefined` if no term can tell its bytes. */
export function recordTerm(record: FieldSource, name: string, value: string): string | undefined {
  // A label comes before an attribute of its name, this before a key of the line, and a derived field before all.
  const { labels, attributes = {} } = record;
  const first = [labels, attributes].find((named) => Object.hasOwn(named, name))?.[name];
  const named = name !== LEVEL_FIELD && (first === undefined || first === value);
  if (named && value.length <= WHOLE_MAX && isExact(value)) return equals(name, value);
  return textTerm(searchedText(record), value);
}

/** The text that words search: the line and the values of the attributes. */
export function searchedText({ text, attributes = {} }: FieldSource): string {
  return [text, ...Object.values(attributes)].join("\n");
}

/** A term for a text that is shown of a record, which may be written differently in it. */
export function textTerm(text: string, shown: string): string | undefined {
  // Characters that stand for other bytes are left out.
  const part = shown
    .split(/[\ufffd\u0000]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/)
    .reduce((longest, one) => (one.length > longest.length ? one : longest), "");
  const start = part.slice(0, CHARS_MAX).replace(/[\ud800-\udbff]$/, "");
  if (start.trim() === "") return undefined;
  const forms = [start, JSON.stringify(start).slice(1, -1), start.replaceAll("/", "\\/")];
  const form = forms.find((form) => text.includes(form));
  return form === undefined ? undefined : quoteText(form);
}

/** A term for a value in the list of fields; `undefined` if no term matches all records with it. */
export function valueTerm(field: FieldFacts, value: FieldCount, fields: readonly FieldFacts[]): string | undefined {
  const { name, kind } = field;
  if (isShadowed(name, kind, fields)) {
    // The text of the value is in the record, if it is written without escapes.
    const plain = /^[\w .:,;@#%+*?!<>()[\]{}|=-]+$/.test(value.value);
    return plain && value.cut !== true ? quoteText(value.value) : undefined;
  }
  if (value.cut === true || value.value.length > WHOLE_MAX || !isExact(value.value)) {
    return prefixTerm(name, value.value);
  }
  return equals(name, value.value);
}

/** A term for the records that have a field; `undefined` if another field of the same name comes before it. */
export function existsTerm({ name, kind }: FieldFacts, fields: readonly FieldFacts[]): string | undefined {
  return isShadowed(name, kind, fields) ? undefined : fieldTerm(name, "=", "x").replace(/x$/, "*");
}

/** Kinds of fields of one name, of which a filter tests the first. */
const PRECEDENCE: readonly FieldFacts["kind"][] = ["derived", "label", "attribute", "field"];

function isShadowed(name: string, kind: FieldFacts["kind"], fields: readonly FieldFacts[]): boolean {
  const place = PRECEDENCE.indexOf(kind);
  if (place > PRECEDENCE.indexOf("label") && name === LEVEL_FIELD) return true;
  return fields.some((other) => other.name === name && PRECEDENCE.indexOf(other.kind) < place);
}

function prefixTerm(name: string, value: string): string | undefined {
  const start = /^[^\ufffd\ud800-\udfff]*/.exec(value.slice(0, CHARS_MAX))?.[0] ?? "";
  if (start === "") return undefined;
  const escaped = start
    .replace(/[\\^$.|?*+()[\]{}/]/g, "\\$&")
    .replace(/[\u0000-\u001f\u007f]/g, (char) => `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}`);
  return `${fieldTerm(name, "=", "x").slice(0, -2)}=~/^${escaped}/`;
}

/** Whether a text has the bytes of the record: a replacement character or half a pair stands for others. */
function isExact(value: string): boolean {
  return !/\ufffd|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/.test(value);
}
