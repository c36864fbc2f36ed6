import { memo } from "react";
import { type Highlighter, noHits } from "../lib/highlight.ts";
import { bytes } from "../lib/numbers.ts";
import { rowText } from "../lib/rowText.ts";
import { fieldValue } from "../lib/shownRows.ts";
import { clock, full } from "../lib/times.ts";
import type { Row } from "../worker/messages.ts";
import { cx } from "./cx.ts";
import { LogText } from "./LogText.tsx";
import styles from "./RecordList.module.css";

/** Characters of a record shown in the list: on one line, and wrapped. */
const LINE_CHARS = 1_000;
const WRAPPED_CHARS = 5_000;

/** Characters of a record in which a match is looked for, to show it in the list. */
const SEARCHED_CHARS = 64_000;

/** Colours of chips. */
const CHIPS = 10;

interface Props {
  id: string;
  row: Row;
  index: number;
  count: number;
  top: number;
  columns: readonly string[];
  widths: readonly number[];
  wrap: boolean;
  zone: string;
  find: Highlighter;
  /** Characters of a line that are in view. */
  room: number;
  isAt: boolean;
  isOpen: boolean;
  /** Whether the context of another record, or of this one, is shown around it. */
  around: "context" | "middle" | undefined;
  measure: ((element: HTMLElement | null) => void) | undefined;
  onOpen: (row: Row, index: number) => void;
}

export const RecordRow = memo(function RecordRow(props: Props) {
  const { row, index, count, top, columns, widths, wrap, zone, find, room, isAt, isOpen, around, measure } = props;
  if (row.notice === true) return <NoticeRow {...props} />;
  const most = wrap ? WRAPPED_CHARS : LINE_CHARS;
  const head = row.text.length > SEARCHED_CHARS ? row.text.slice(0, SEARCHED_CHARS) : row.text;
  const text = wrap ? head : head.replaceAll("\n", "⏎");
  const { message, rest, cutBefore } = rowText(text, find, wrap ? WRAPPED_CHARS : room);
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
      data-around={around}
      className={cx(
        styles.row,
        wrap && styles.wrap,
        around !== undefined && styles.around,
        isAt && styles.at,
        isOpen && styles.open,
      )}
      style={{ transform: `translateY(${top}px)` }}
      onClick={() => {
        // A click that ends a text selection does not open the record.
        if (getSelection()?.isCollapsed !== false) props.onOpen(row, index);
      }}
    >
      <span className={cx(styles.level, row.level !== undefined && styles[row.level])} title={row.level}>
        {row.level?.charAt(0).toUpperCase() ?? " "}
      </span>
      <span className={styles.time} title={full(row.time, zone)}>
        {clock(row.time, zone)}
      </span>
      {columns.length === 0 ? undefined : <Columns row={row} names={columns} widths={widths} />}
      <Chip labels={row.labels} />
      <span className={styles.text}>
        {cutBefore ? <span className={styles.more}>… </span> : undefined}
        <LogText text={message.slice(0, most)} find={find} most={most} />
        {rest === "" || message.length >= most ? undefined : (
          <span className={styles.rest}>
            {"  "}
            <LogText text={rest} find={find} most={most - message.length} />
          </span>
        )}
        {message.length + rest.length > most || row.text.length > SEARCHED_CHARS || row.part === true ? (
          <span className={styles.more}>{remaining(row)}</span>
        ) : undefined}
      </span>
    </div>
  );
});

/** Labels that name a program, most telling first. */
const APPS = ["app", "service", "service.name", "service_name", "application", "job", "container", "unit", "program"];

/** The program of a record, in a colour of its name. */
function Chip({ labels }: { labels: Record<string, string> }) {
  const names = Object.keys(labels);
  const name = APPS.find((name) => Object.hasOwn(labels, name)) ?? names[0];
  const value = name === undefined ? undefined : labels[name];
  if (value === undefined || value === "") return undefined;
  let hash = 0;
  for (let at = 0; at < value.length; at += 1) hash = (Math.imul(hash, 31) + value.charCodeAt(at)) >>> 0;
  return (
    <span
      className={cx(styles.chip, styles[`chip-${hash % CHIPS}`])}
      title={names.map((name) => `${name}=${labels[name]}`).join(" ")}
    >
      {value.slice(0, 60)}
    </span>
  );
}

/** A thin line between records with a notice about the stream. */
function NoticeRow({ id, row, index, count, top, zone, isAt, measure }: Props) {
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
      <span title={full(row.time, zone)}>{row.text}</span>
    </div>
  );
}

function Columns({ row, names, widths }: { row: Row; names: readonly string[]; widths: readonly number[] }) {
  return names.map((name, at) => {
    const value = fieldValue(row, name);
    return (
      <span
        key={name}
        className={cx(styles.column, value === undefined && styles.absent)}
        style={{ width: widths[at] }}
        title={value?.slice(0, 500)}
      >
        {value === undefined ? "–" : <LogText text={value.slice(0, 200)} find={noHits} most={200} />}
      </span>
    );
  });
}

function remaining(row: Row): string {
  return row.part === true ? " … whole when it is opened" : ` … ${bytes(row.text.length)} in all`;
}
