/**
 * Reads the fields of a record exactly as the node reads them for filters (`crates/scan/src/fields`). A parser of JSON does
 * not serve: a record may be truncated, numbers are compared as written, and of equal names the last value counts.
 * `crates/scan/src/fields/cases.json` is a table of cases that the tests of the node read too.
 */
export interface FieldValue {
  name: string;
  value: string;
}

/** The greatest nesting of objects and arrays that are entered. */
const DEPTH_MAX = 128;

/** Up to `limit` fields, each name once, in the order of their first values. */
export function readFields(text: string, limit: number): FieldValue[] {
  const fields = new Map<string, string>();
  const put = (name: string, value: string) => {
    if (fields.size < limit || fields.has(name)) fields.set(name, value);
  };
  if (/^[ \t\n\f\r]*\{/.test(text)) new JsonReader(text, put).members("", 0);
  else readLogfmt(text, put);
  return [...fields].map(([name, value]) => ({ name, value }));
}

type Put = (name: string, value: string) => void;

/** A reader of JSON text. `undefined` or false from a method means that the text is truncated or invalid. */
class JsonReader {
  private at = 0;

  constructor(
    private readonly text: string,
    private readonly put: Put,
  ) {}

  /** Reads the members of the next object or array. */
  members(prefix: string, depth: number): boolean {
    this.skipSpace();
    const isArray = this.text[this.at] === "[";
    if (!this.isContainer()) return false;
    this.at += 1;
    const close = isArray ? "]" : "}";
    for (let index = 0; ; index += 1) {
      this.skipSpace();
      if (this.eat(close)) return true;
      if (index > 0) {
        if (!this.eat(",")) return false;
        this.skipSpace();
      }
      const key = isArray ? String(index) : this.key();
      if (key === undefined) return false;
      const name = depth === 0 ? key : `${prefix}.${key}`;
      if (this.isContainer() && depth < DEPTH_MAX) {
        if (!this.members(name, depth + 1)) return false;
        continue;
      }
      const value = this.value();
      if (value === undefined) return false;
      this.put(name, value);
    }
  }

  private skipSpace() {
    while (isSpace(this.text[this.at])) this.at += 1;
  }

  private eat(char: string): boolean {
    if (this.text[this.at] !== char) return false;
    this.at += 1;
    return true;
  }

  private isContainer(): boolean {
    return this.text[this.at] === "{" || this.text[this.at] === "[";
  }

  /** A key and the colon after it. */
  private key(): string | undefined {
    if (!this.eat('"')) return undefined;
    const end = quotedEnd(this.text, this.at);
    if (end === undefined) return undefined;
    const key = unescaped(this.text.slice(this.at, end));
    this.at = end + 1;
    this.skipSpace();
    if (!this.eat(":")) return undefined;
    this.skipSpace();
    return key;
  }

  private value(): string | undefined {
    const start = this.at;
    const end = this.valueEnd();
    if (end === undefined) return undefined;
    this.at = end;
    const text = this.text.slice(start, end);
    if (text.startsWith('"')) return unescaped(text.slice(1, -1));
    return text.startsWith("{") || text.startsWith("[") ? compact(text) : text;
  }

  private valueEnd(): number | undefined {
    if (this.text[this.at] === '"') {
      const end = quotedEnd(this.text, this.at + 1);
      return end === undefined ? undefined : end + 1;
    }
    if (this.isContainer()) return containerEnd(this.text, this.at);
    // A word at the end of the text may be truncated.
    const length = this.text.slice(this.at, this.at + WORD_MAX).search(/[^A-Za-z0-9+.-]/);
    return length > 0 ? this.at + length : undefined;
  }
}

/** Characters of a number or another bare word. */
const WORD_MAX = 1 << 20;

function isSpace(char: string | undefined): boolean {
  return char === " " || char === "\t" || char === "\n" || char === "\f" || char === "\r";
}

/** The offset of the closing quote. */
function quotedEnd(text: string, start: number): number | undefined {
  for (let at = start; at < text.length; at += 1) {
    if (text[at] === '"') return at;
    if (text[at] === "\\") at += 1;
  }
  return undefined;
}

/** The offset after the object or array that starts at `start`. */
function containerEnd(text: string, start: number): number | undefined {
  let depth = 0;
  for (let at = start; at < text.length; at += 1) {
    const char = text[at];
    if (char === "{" || char === "[") depth += 1;
    else if (char === "}" || char === "]") depth -= 1;
    else if (char === '"') {
      const end = quotedEnd(text, at + 1);
      if (end === undefined) return undefined;
      at = end;
    }
    if (depth === 0) return at + 1;
  }
  return undefined;
}

/** The text of an object or array without space between its parts. */
function compact(text: string): string {
  return text.replace(/"(?:[^"\\]|\\[\s\S])*"|[ \t\n\f\r]+/g, (part) => (part.startsWith('"') ? part : ""));
}

/** The value of a JSON string without its quotes. Half of a surrogate pair becomes the replacement character. */
function unescaped(inner: string): string {
  const known: Record<string, string> = { b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };
  return inner.replace(
    /\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|\\u([0-9a-fA-F]{4})|\\([\s\S])/g,
    (whole, high?: string, low?: string, unit?: string, char?: string) => {
      if (high !== undefined && low !== undefined) {
        return String.fromCharCode(Number.parseInt(high, 16), Number.parseInt(low, 16));
      }
      if (unit !== undefined)
        return String.fromCharCode(Number.parseInt(unit, 16)).replace(/[\ud800-\udfff]/, "\ufffd");
      if (char === '"' || char === "\\" || char === "/") return char;
      return known[char ?? ""] ?? whole;
    },
  );
}

/** Reads pairs of `key=value` and `key="quoted value"` anywhere in a line. */
function readLogfmt(text: string, put: Put) {
  let at = 0;
  for (;;) {
    while (isSpace(text[at])) at += 1;
    if (at >= text.length) return;
    const start = at;
    while (at < text.length && text[at] !== "=" && text[at] !== '"' && !isSpace(text[at])) at += 1;
    const key = text.slice(start, at);
    if (text[at] !== "=") {
      at = tokenEnd(text, at);
      continue;
    }
    if (text[at + 1] === '"') {
      const end = quotedEnd(text, at + 2);
      // The line is truncated, or is not logfmt.
      if (end === undefined) return;
      if (key !== "") put(key, unquote(text.slice(at + 2, end)));
      at = tokenEnd(text, end);
      continue;
    }
    const end = tokenEnd(text, at + 1);
    if (key !== "") put(key, text.slice(at + 1, end));
    at = end;
  }
}

function tokenEnd(text: string, start: number): number {
  let at = start;
  while (at < text.length && !isSpace(text[at])) at += 1;
  return at;
}

function unquote(quoted: string): string {
  const known: Record<string, string> = { n: "\n", r: "\r", t: "\t", '"': '"', "\\": "\\" };
  return quoted.replace(/\\([\s\S])/g, (whole, char: string) => known[char] ?? whole);
}
