/**
 * The level of a record, by the rules of the node's histogram (`by=@level` in docs/http.md), so that records have the colours
 * of their bars. Both are tested with `crates/record/src/level/cases.txt`.
 */
export const LEVELS = ["fatal", "error", "warn", "info", "debug", "trace"] as const;
export type Level = (typeof LEVELS)[number];

/** Characters of a text that are searched for a level. */
const LOOK = 512;

const KEYS = new Set([
  "level",
  "severity",
  "lvl",
  "loglevel",
  "log_level",
  "levelname",
  "severity_text",
  "severitytext",
]);

const NAMES: Record<Level, readonly string[]> = {
  fatal: ["fatal", "critical", "crit", "panic", "alert", "emerg", "emergency", "ftl"],
  error: ["error", "err", "severe"],
  warn: ["warn", "warning", "wrn"],
  info: ["info", "inf", "information", "informational", "notice"],
  debug: ["debug", "dbg"],
  trace: ["trace", "trc", "verbose", "finest"],
};

const BY_NAME = new Map<string, Level>(LEVELS.flatMap((level) => NAMES[level].map((name) => [name, level] as const)));
const BY_NUMBER = new Map<string, Level>([
  ["10", "trace"],
  ["20", "debug"],
  ["30", "info"],
  ["40", "warn"],
  ["50", "error"],
  ["60", "fatal"],
]);
const GLOG: Record<string, Level> = { I: "info", W: "warn", E: "error", F: "fatal" };

/** The level of a name; case is ignored. */
export function levelNamed(name: string): Level | undefined {
  return BY_NAME.get(name.toLowerCase());
}

/** Whether a label or field of this name holds the level. */
export function isLevelKey(name: string): boolean {
  return KEYS.has((name.split(".").at(-1) ?? "").toLowerCase());
}

export function levelOf(
  labels: Record<string, string>,
  text: string,
  attributes: Readonly<Record<string, string>> = {},
): Level | undefined {
  for (const name in labels) {
    if (KEYS.has(name.toLowerCase())) {
      const level = levelNamed(labels[name] ?? "");
      if (level !== undefined) return level;
    }
  }
  for (const name in attributes) {
    if (isLevelKey(name)) {
      const level = levelNamed(attributes[name] ?? "");
      if (level !== undefined) return level;
    }
  }
  return levelInText(text);
}

function levelInText(text: string): Level | undefined {
  const head = text.slice(0, LOOK);
  let found: Level | undefined;
  // An escape sequence, or a word.
  for (const match of head.matchAll(/\x1b(?:\[[^@-~]*[@-~]?)?|[A-Za-z0-9_]+/g)) {
    const word = match[0];
    if (word.length < 3 || word.length > 13 || word.startsWith("\x1b")) continue;
    const low = word.toLowerCase();
    const end = match.index + word.length;
    if (KEYS.has(low)) {
      const level = levelBehind(head.slice(end));
      if (level !== undefined) return level;
    }
    if (found !== undefined) continue;
    const level = BY_NAME.get(low);
    const [before, behind] = [head.charAt(match.index - 1), head.charAt(end)];
    if (level !== undefined && standsAsLevel(before, word, behind)) found = level;
    else if (word === "LOG" && behind === ":") found = "info";
  }
  if (found !== undefined) return found;
  const glog = /^([IWEF])\d{4} /.exec(head)?.[1];
  return glog === undefined ? undefined : GLOG[glog];
}

function levelBehind(rest: string): Level | undefined {
  const value = /^"?[ \t\n\f\r]*[:=][ \t\n\f\r]*"?([A-Za-z0-9_]*)/.exec(rest)?.[1];
  return value === undefined ? undefined : (BY_NUMBER.get(value) ?? levelNamed(value));
}

function standsAsLevel(before: string, word: string, behind: string): boolean {
  const bracketed = (before === "[" && behind === "]") || (before === "<" && behind === ">");
  const starts = before === "" || /[\sm\][]/.test(before);
  return bracketed || /^[A-Z]+$/.test(word) || (starts && behind === ":");
}
