import type { Hit } from "./display.ts";
import { tokenize, wanted } from "./expression.ts";

/** Characters of a text that a regex searches at a time, and by how many two such parts overlap. */
const REGEX_LOOK = 2_000;
const REGEX_OVERLAP = 200;

/** Milliseconds after which a regex is disabled if one text took longer, so that it cannot block the page. */
const REGEX_MS = 10;

/** Maximum highlighted matches of a text. */
const HITS_MAX = 200;

/** Finds the matches in a text. */
export type Highlighter = (text: string) => Hit[];

/** Finds nothing. One function for all values, so that an unchanged one is not rendered again. */
export const noHits: Highlighter = () => [];

/** Highlights the texts, field values and, where the browser supports them, regexes of an expression. */
export function highlighter(expression: string, now: () => number = () => performance.now()): Highlighter {
  const texts: { text: string; anyCase: boolean }[] = [];
  const regexes: { regex: RegExp; off: boolean }[] = [];
  if (tokenize(expression).every((token) => token.kind !== "error")) {
    for (const token of wanted(expression)) {
      const source = token.kind === "regex" ? token.regex : undefined;
      // A derived field is not a text of the record.
      const derived = token.field?.name.startsWith("@level") === true;
      const value = token.field?.operator === "=" && !derived ? token.field.value : undefined;
      const text = token.kind === "text" ? token.text : value;
      if (text !== undefined && text !== "") texts.push({ text, anyCase: token.anyCase === true });
      const regex = source === undefined ? undefined : browserRegex(source, token.anyCase === true);
      if (regex !== undefined) regexes.push({ regex, off: false });
    }
  }
  if (texts.length === 0 && regexes.length === 0) return noHits;
  return (text) => {
    const hits: Hit[] = [];
    for (const { text: needle, anyCase } of texts) find(text, needle, anyCase, hits);
    for (const known of regexes) {
      if (known.off) continue;
      const started = now();
      // The bounds of a line are not those of a part.
      const parts = /[$^]/.test(known.regex.source) ? 1 : Math.ceil(text.length / (REGEX_LOOK - REGEX_OVERLAP));
      for (let part = 0; part < Math.max(parts, 1) && hits.length < HITS_MAX; part += 1) {
        const from = part * (REGEX_LOOK - REGEX_OVERLAP);
        for (const match of text.slice(from, from + REGEX_LOOK).matchAll(known.regex)) {
          if (match[0] !== "") hits.push([from + match.index, from + match.index + match[0].length]);
          if (hits.length >= HITS_MAX) break;
        }
        const spent = now() - started;
        // One part took too long, or all of them together.
        if (part === 0) known.off = spent > REGEX_MS;
        if (spent > REGEX_MS) break;
      }
    }
    return joined(hits);
  };
}

function find(text: string, needle: string, anyCase: boolean, hits: Hit[]) {
  const within = anyCase ? lower(text) : text;
  const wanted = anyCase ? lower(needle) : needle;
  let at = within.indexOf(wanted);
  while (at >= 0 && hits.length < HITS_MAX) {
    hits.push([at, at + wanted.length]);
    at = within.indexOf(wanted, at + wanted.length);
  }
}

/** Folds ASCII letters only, like the node; offsets stay the same. */
function lower(text: string): string {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

/** The regex for the browser; `undefined` if it differs there or could be very slow. */
function browserRegex(source: string, anyCase: boolean): RegExp | undefined {
  if (mayBlowUp(source)) return undefined;
  const flags = /^\(\?([ims]+)\)/.exec(source);
  const body = flags === null ? source : source.slice(flags[0].length);
  if (/\(\?[a-zA-Z-]*[):]/.test(body.replaceAll("(?:", ""))) return undefined;
  const set = new Set(`g${anyCase ? "i" : ""}${flags?.[1] ?? ""}`);
  try {
    return new RegExp(body.replaceAll("(?P<", "(?<"), [...set].join(""));
  } catch {
    return undefined;
  }
}

/**
 * Whether a regex repeats a group that repeats or branches. Browsers backtrack over it, possibly in exponential time. The
 * node's engine does not, so such a regex works as a filter without highlights.
 */
export function mayBlowUp(source: string): boolean {
  const groups: boolean[] = [];
  let branches = false;
  let repeats = 0;
  const plain = source.replace(/\\./gs, "_").replace(/\[[^\]]*\]/g, "_");
  for (let at = 0; at < plain.length; at += 1) {
    const char = plain.charAt(at);
    const repeated = /^(?:[*+]|\{\d+,\d*\})/.test(plain.slice(at + 1));
    if (char === "(") {
      groups.push(branches);
      branches = false;
    } else if (char === ")") {
      if (branches && repeated) return true;
      branches = branches || groups.pop() === true;
    } else if (char === "|") branches = true;
    if (repeated && char !== "(") {
      branches = true;
      repeats += 1;
    }
  }
  return repeats > 6;
}

function joined(hits: Hit[]): Hit[] {
  hits.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const out: [number, number][] = [];
  for (const [start, end] of hits) {
    const last = out.at(-1);
    if (last !== undefined && start <= last[1]) last[1] = Math.max(last[1], end);
    else out.push([start, end]);
  }
  return out;
}
