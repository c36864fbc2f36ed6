/**
 * Splits log text into pieces for display. Log text is untrusted: it may contain terminal escape sequences, characters that
 * change the text direction, and invisible ones. Colours are rendered; everything else of these is shown by name. The pieces
 * are inserted as text nodes only.
 */

export interface Piece {
  text: string;
  /** `mark` is an invisible character, named by `text`. */
  kind: "text" | "mark";
  /** Class names: `fg1`, `bg4`, `bold`, … */
  style: string;
  /** Whether it is part of a match. */
  hit: boolean;
  /** Its offset in the text. */
  at: number;
}

/** The bounds of a match. */
export type Hit = readonly [start: number, end: number];

/**
 * Escape sequences, control characters except tab and line feed, invisible characters, and those that change the text
 * direction.
 */
const SPECIAL =
  /\x1b\[([0-?]*)[ -/]*([@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[()][0-9A-Za-z]|[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]|\udb40[\udc00-\udfff]/g;

/** The text without colour sequences, and the original offset of each character. Matches are searched in it. */
export function pieces(text: string, hits: readonly Hit[] = []): Piece[] {
  const out: Piece[] = [];
  let sgr: Sgr = PLAIN;
  let from = 0;
  const plain = (end: number) => {
    if (end > from) cut(text, from, end, styleOf(sgr), hits, out);
  };
  for (const match of text.matchAll(SPECIAL)) {
    plain(match.index);
    from = match.index + match[0].length;
    if (match[2] === "m" && match[1] !== undefined && /^[\d;:]*$/.test(match[1])) sgr = apply(sgr, match[1]);
    else {
      const hit = hits.some(([start, end]) => start <= match.index && match.index < end);
      out.push({ text: nameOf(match[0]), kind: "mark", style: "", hit, at: match.index });
    }
  }
  plain(text.length);
  return out;
}

function cut(text: string, from: number, to: number, style: string, hits: readonly Hit[], out: Piece[]) {
  let at = from;
  for (const [start, end] of hits) {
    if (end <= at) continue;
    if (start >= to) break;
    if (start > at) out.push({ text: text.slice(at, start), kind: "text", style, hit: false, at });
    const begin = Math.max(at, start);
    at = Math.min(to, end);
    out.push({ text: text.slice(begin, at), kind: "text", style, hit: true, at: begin });
  }
  if (at < to) out.push({ text: text.slice(at, to), kind: "text", style, hit: false, at });
}

/** The name shown for an invisible character. */
function nameOf(sequence: string): string {
  const code = sequence.codePointAt(0) ?? 0;
  if (sequence.length > 1 && code === 0x1b) return `ESC${sequence.slice(1, 9).replace(/[^!-~]/g, "·")}`;
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return "␡";
  return `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

interface Sgr {
  fg: number | undefined;
  bg: number | undefined;
  marks: readonly string[];
}

const PLAIN: Sgr = { fg: undefined, bg: undefined, marks: [] };

const MARKS: Record<number, string> = { 1: "bold", 2: "dim", 3: "italic", 4: "underline", 9: "struck" };

function apply(before: Sgr, parameters: string): Sgr {
  const codes = parameters.split(/[;:]/).map((code) => (code === "" ? 0 : Number(code)));
  let { fg, bg, marks } = before;
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at] ?? 0;
    const mark = MARKS[code];
    if (code === 0) ({ fg, bg, marks } = PLAIN);
    else if (mark !== undefined) marks = [...marks.filter((other) => other !== mark), mark];
    else if (code === 22) marks = marks.filter((other) => other !== "bold" && other !== "dim");
    else if (code >= 23 && code <= 29) marks = marks.filter((other) => other !== MARKS[code - 20]);
    else if (code === 39) fg = undefined;
    else if (code === 49) bg = undefined;
    else if (code === 38 || code === 48) {
      const [colour, used] = extended(codes.slice(at + 1));
      if (code === 38) fg = colour;
      else bg = colour;
      at += used;
    } else if (code >= 30 && code <= 37) fg = code - 30;
    else if (code >= 40 && code <= 47) bg = code - 40;
    else if (code >= 90 && code <= 97) fg = code - 82;
    else if (code >= 100 && code <= 107) bg = code - 92;
  }
  return { fg, bg, marks };
}

/** The nearest of the sixteen colours, which are readable in both themes. */
function extended(codes: number[]): [colour: number | undefined, used: number] {
  if (codes[0] === 5) {
    const index = codes[1] ?? 0;
    if (index < 16) return [index, 2];
    if (index >= 232) return [index < 244 ? 8 : 7, 2];
    const cube = index - 16;
    return [nearest(Math.floor(cube / 36) / 5, (Math.floor(cube / 6) % 6) / 5, (cube % 6) / 5), 2];
  }
  if (codes[0] === 2) return [nearest((codes[1] ?? 0) / 255, (codes[2] ?? 0) / 255, (codes[3] ?? 0) / 255), 4];
  return [undefined, codes.length];
}

function nearest(red: number, green: number, blue: number): number {
  const top = Math.max(red, green, blue);
  if (top < 0.15) return 0;
  const strong = (part: number) => (part > top * 0.6 ? 1 : 0);
  const colour = strong(red) + 2 * strong(green) + 4 * strong(blue);
  return top > 0.75 ? colour + 8 : colour;
}

function styleOf({ fg, bg, marks }: Sgr): string {
  const classes = [...marks];
  if (fg !== undefined) classes.push(`fg${fg}`);
  if (bg !== undefined) classes.push(`bg${bg}`);
  return classes.join(" ");
}
