import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, type ReactNode, useEffect, useRef } from "react";
import type { Highlighter } from "../lib/highlight.ts";
import type { Row } from "../worker/messages.ts";
import { cx } from "./cx.ts";
import { Icon } from "./Icon.tsx";
import styles from "./RecordList.module.css";
import { RecordRow } from "./RecordRow.tsx";

/** The height of an unwrapped row, as in tokens.css. */
const ROW_PX = 22;

/** More rows than are rendered at the same time. */
const PLACES = 512;

/** More records are fetched when fewer than these, or than half of all, are left below. */
const AHEAD = 1_500;

interface Props {
  count: number;
  rowAt: (index: number) => Row | undefined;
  columns: readonly string[];
  wrap: boolean;
  utc: boolean;
  stale: boolean;
  find: Highlighter;
  /** The row of the keyboard cursor. */
  at: number;
  open: string;
  foot: ReactNode;
  onAt: (index: number) => void;
  onOpen: (row: Row, index: number) => void;
  /** Whether more records can be fetched now. */
  more: boolean;
  onNearEnd: () => void;
  /** Called when the list is scrolled from its start, and back. */
  onAway: (away: boolean) => void;
  onRemoveColumn: (name: string) => void;
}

/** The list of records; only visible rows are rendered. */
export function RecordList(props: Props) {
  const { count, rowAt, columns, wrap, utc, stale, find, at, open, foot } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const list = useVirtualizer({
    count,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: 8,
    getItemKey: (index) => rowAt(index)?.id ?? index,
  });
  const items = list.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  const { more, onNearEnd, onAway } = props;
  const nearEnd = count > 0 && last >= count - Math.min(AHEAD, count / 2);
  useEffect(() => {
    if (nearEnd && more) onNearEnd();
  }, [nearEnd, more, onNearEnd]);

  // The heights or positions of rows have changed.
  // biome-ignore lint/correctness/useExhaustiveDependencies: measured again because of what is shown
  useEffect(() => list.measure(), [wrap, columns]);

  const move = (index: number) => {
    const to = Math.max(0, Math.min(index, count - 1));
    props.onAt(to);
    list.scrollToIndex(to, { align: "auto" });
    const row = rowAt(to);
    // While a record is open, the keys open the next one.
    if (open !== "" && row !== undefined) props.onOpen(row, to);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor((scroller.current?.clientHeight ?? 0) / ROW_PX) - 1);
    const steps: Record<string, number> = {
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      j: at + 1,
      k: at - 1,
      PageDown: at + page,
      PageUp: at - page,
      Home: 0,
      End: count - 1,
      G: count - 1,
    };
    const to = steps[event.key];
    const row = rowAt(at);
    if (to !== undefined) move(to);
    else if ((event.key === "Enter" || event.key === " ") && row !== undefined) props.onOpen(row, at);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const total = list.getTotalSize();
  return (
    <div className={styles.frame}>
      {columns.length === 0 ? undefined : (
        <div className={styles.head}>
          <span className={styles.time}>time</span>
          {columns.map((name) => (
            <span key={name} className={styles.column}>
              {name}
              <button
                type="button"
                className={styles.remove}
                aria-label={`Remove the column ${name}`}
                onClick={() => props.onRemoveColumn(name)}
              >
                <Icon name="close" />
              </button>
            </span>
          ))}
          <span className={styles.text}>record</span>
        </div>
      )}
      <div
        ref={scroller}
        className={cx(styles.scroller, stale && styles.stale)}
        data-testid="scroller"
        onScroll={(event) => onAway(event.currentTarget.scrollTop > 2 * ROW_PX)}
      >
        <div
          id="records"
          className={styles.inner}
          style={{ height: total }}
          role="listbox"
          aria-label="Records"
          aria-busy={stale}
          aria-activedescendant={at >= 0 && at < count ? `row-${at}` : undefined}
          tabIndex={0}
          onKeyDown={onKeyDown}
        >
          {items.map(({ index, key, start }) => {
            const row = rowAt(index);
            return row === undefined ? undefined : (
              <RecordRow
                // Rows of equal height are reused: changing a text is faster than creating an element.
                key={wrap ? key : index % PLACES}
                id={`row-${index}`}
                row={row}
                index={index}
                count={count}
                top={start}
                columns={columns}
                wrap={wrap}
                utc={utc}
                find={find}
                isAt={index === at}
                isOpen={row.id === open}
                measure={wrap ? list.measureElement : undefined}
                onOpen={props.onOpen}
              />
            );
          })}
        </div>
        <div className={styles.foot}>{foot}</div>
      </div>
    </div>
  );
}
