import type { FieldFacts } from "./complete.ts";
import { fieldTerm } from "./expression.ts";
import { isLevelKey, type Level, levelNamed } from "./level.ts";

/** Words that programs write for a level in capitals. */
const WORDS: Record<Level, string> = {
  fatal: "FATAL|CRITICAL|CRIT|PANIC|ALERT|EMERG",
  error: "ERROR|ERR|SEVERE",
  warn: "WARN|WARNING|WRN",
  info: "INFO|NOTICE|INF",
  debug: "DEBUG|DBG",
  trace: "TRACE|TRC|FINEST",
};

/**
 * A filter for the records of a level: by the fields that tell it, as they are found in the answer, and by the words that
 * stand in texts where not all records have such a field.
 */
export function levelTerm(level: Level, fields: readonly FieldFacts[], records: number): string {
  const telling = fields.filter(({ name }) => isLevelKey(name));
  const terms = telling.flatMap(({ name, values }) =>
    values.filter(({ value }) => levelNamed(value) === level).map(({ value }) => fieldTerm(name, "=", value)),
  );
  const told = telling.reduce((sum, field) => sum + field.records, 0);
  if (told < records || terms.length === 0) terms.push(`/\\b(${WORDS[level]})\\b/`);
  return terms.length === 1 ? (terms[0] ?? "") : `(${terms.join(" OR ")})`;
}
