import type { FieldFacts } from "./complete.ts";
import { fieldTerm } from "./expression.ts";
import { isLevelKey, type Level, levelNamed } from "./level.ts";

/** Upper-case words that programs write for a level. */
const WORDS: Record<Level, string> = {
  fatal: "FATAL|CRITICAL|CRIT|PANIC|ALERT|EMERG",
  error: "ERROR|ERR|SEVERE",
  warn: "WARN|WARNING|WRN",
  info: "INFO|NOTICE|INF",
  debug: "DEBUG|DBG",
  trace: "TRACE|TRC|FINEST",
};

/**
 * A filter for the records of a level: by the level fields of the answer, and by words in the text if not all records have
 * such a field.
 */
export function levelTerm(level: Level, fields: readonly FieldFacts[], records: number): string {
  const levelFields = fields.filter(({ name }) => isLevelKey(name));
  const terms = levelFields.flatMap(({ name, values }) =>
    values.filter(({ value }) => levelNamed(value) === level).map(({ value }) => fieldTerm(name, "=", value)),
  );
  const known = levelFields.reduce((sum, field) => sum + field.records, 0);
  if (known < records || terms.length === 0) terms.push(`/\\b(${WORDS[level]})\\b/`);
  return terms.length === 1 ? (terms[0] ?? "") : `(${terms.join(" OR ")})`;
}
