import { memo } from "react";
import { fieldsOf } from "../lib/fields.ts";
import type { Highlighter } from "../lib/highlight.ts";
import { bytes } from "../lib/numbers.ts";
import { clock, full } from "../lib/times.ts";
import type { Row } from "../worker/messages.ts";
import { cx } from "./cx.ts";
import { LogText } from "./LogText.tsx";
import styles from "./RecordList.module.css";

/** Characters of a record shown in the list: on one line, and wrapped. */
const LINE_CHARS = 1_000;
const WRAPPED_CHARS = 5_000;

interface Props {
  id: string;
  row: Row;
  index: number;
  count: number;
  top: number;
  columns: readonly string[];
  wrap: boolean;
  utc: boolean;
  find: Highlighter;
  isAt: boolean;
  isOpen: boolean;
  measure: ((element: HTMLElement | null) => void) | undefined;
  onOpen: (row: Row, index: number) => void;
}

export const RecordRow = memo(function RecordRow(props: Props) {
  const { row, index, count, top, columns, wrap, utc, find, isAt, isOpen, measure, onOpen } = props;
  if (row.notice === true) return <NoticeRow {...props} />;
  const most = wrap ? WRAPPED_CHARS : LINE_CHARS;
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are those of the list, which keeps the focus
    // biome-ignore lint/a11y/useFocusableInteractive: as above
    <div
      id={props.id}
      ref={measure}
      role="option"
      aria-selected={isOpen}
      aria-posinset={index + 1}
      aria-setsize={count}
      data-index={index}
      data-record={row.id}
      className={cx(styles.row, wrap && styles.wrap, isAt && styles.at, isOpen && styles.open)}
      style={{ transform: `translateY(${top}px)` }}
      onClick={() => {
        // A click that ends a text selection does not open the record.
        if (getSelection()?.isCollapsed !== false) onOpen(row, index);
      }}
    >
      <span className={cx(styles.level, row.level !== undefined && styles[row.level])} title={row.level}>
        {row.level?.charAt(0).toUpperCase() ?? " "}
      </span>
      <span className={styles.time} title={full(row.time, utc)}>
        {clock(row.time, utc)}
      </span>
      {columns.length === 0 ? undefined : <Columns row={row} names={columns} />}
      <span className={styles.text}>
        <LogText text={wrap ? row.text : row.text.slice(0, most).replaceAll("\n", "⏎")} find={find} most={most} />
        {row.text.length > most || row.part === true ? <span className={styles.more}>{rest(row)}</span> : undefined}
      </span>
    </div>
  );
});

/** A thin line between records with a notice about the stream. */
function NoticeRow({ id, row, index, count, top, utc, isAt, measure }: Props) {
  return (
    // biome-ignore lint/a11y/useFocusableInteractive: the keys are those of the list, which keeps the focus
    <div
      id={id}
      ref={measure}
      role="option"
      aria-selected={false}
      aria-disabled
      aria-posinset={index + 1}
      aria-setsize={count}
      data-index={index}
      data-testid="notice"
      className={cx(styles.row, styles.notice, isAt && styles.at)}
      style={{ transform: `translateY(${top}px)` }}
    >
      <span title={full(row.time, utc)}>{row.text}</span>
    </div>
  );
}

function Columns({ row, names }: { row: Row; names: readonly string[] }) {
  const fields = new Map(fieldsOf(row.text).map(({ name, value }) => [name, value]));
  return names.map((name) => {
    const value = row.labels[name] ?? fields.get(name);
    return (
      <span key={name} className={cx(styles.column, value === undefined && styles.absent)} title={value?.slice(0, 500)}>
        {value === undefined ? "–" : <LogText text={value.slice(0, 200)} find={() => []} most={200} />}
      </span>
    );
  });
}

function rest(row: Row): string {
  return row.part === true ? " … whole when it is opened" : ` … ${bytes(row.text.length)} in all`;
}
