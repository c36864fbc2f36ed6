import { columnOffset, tokenize } from "../lib/expression.ts";
import { cx } from "./cx.ts";
import styles from "./SearchBox.module.css";

interface Part {
  text: string;
  style: string | undefined;
}

function parts(expression: string): Part[] {
  const out: Part[] = [];
  let at = 0;
  const push = (end: number, style: string | undefined) => {
    if (end > at) out.push({ text: expression.slice(at, end), style });
    at = Math.max(at, end);
  };
  for (const token of tokenize(expression)) {
    push(token.start, undefined);
    if (token.field !== undefined) {
      push(token.field.operatorAt, styles.name);
      push(token.field.valueAt, styles.operator);
      push(
        token.end,
        token.kind === "error" ? styles.error : token.field.operator.includes("~") ? styles.regex : styles.value,
      );
    } else if (token.kind === "regex") push(token.end, styles.regex);
    else if (token.kind === "text") push(token.end, undefined);
    else push(token.end, token.kind === "error" ? styles.error : styles.operator);
  }
  push(expression.length, undefined);
  return out;
}

/** An expression with syntax colours and an underlined error. */
export function Coloured({ expression, errorColumn }: { expression: string; errorColumn?: number | undefined }) {
  const wrong = errorColumn === undefined ? -1 : Math.min(columnOffset(expression, errorColumn), expression.length);
  let at = 0;
  const shown = parts(expression).flatMap(({ text, style }) => {
    const start = at;
    at += text.length;
    if (wrong < start || wrong >= at) return [{ text, style, wrong: false, start }];
    const split = wrong - start;
    return [
      { text: text.slice(0, split), style, wrong: false, start },
      { text: text.slice(split), style, wrong: true, start: wrong },
    ];
  });
  return (
    <>
      {shown.map(({ text, style, wrong, start }) => (
        <span key={start} className={cx(style, wrong && styles.wrong)}>
          {text}
        </span>
      ))}
      {wrong >= expression.length && wrong >= 0 ? <span className={styles.wrong}> </span> : undefined}
    </>
  );
}
