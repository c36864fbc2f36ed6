import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, type ReactNode, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import type { Highlighter } from "../lib/highlight.ts";
import type { Sort } from "../lib/url.ts";
import { usePreferences } from "../state/preferences.ts";
import type { Row } from "../worker/messages.ts";
import { ColumnHead } from "./ColumnHead.tsx";
import { cx } from "./cx.ts";
import styles from "./RecordList.module.css";
import { RecordRow } from "./RecordRow.tsx";

/** The height of an unwrapped row, as in tokens.css. */
const ROW_PX = 22;

/** The height of the head of columns. */
const HEAD_PX = 26;

/** The width of a column until the user changes it, of what is before the columns, and the least width of the text. */
const COLUMN_PX = 150;
const BEFORE_PX = 150;
const TEXT_PX = 360;
const GAP_PX = 8;

/** The width of a letter, and of a chip. */
const LETTER_PX = 7.6;
const CHIP_PX = 90;

/** More rows than are rendered at the same time. */
const PLACES = 512;

/** More records are fetched when fewer than these, or than half of all, are left below. */
const AHEAD = 1_500;

/** More records are fetched when fewer rows than these are left above. */
const AHEAD_BEFORE = 20;

/** A row to scroll to; a new object scrolls again. */
export interface Reveal {
  index: number;
  align: "center" | "auto";
}

interface Props {
  count: number;
  rowAt: (index: number) => Row | undefined;
  columns: readonly string[];
  sort: Sort | undefined;
  sortable: boolean;
  wrap: boolean;
  zone: string;
  stale: boolean;
  find: Highlighter;
  /** The row of the keyboard cursor. */
  at: number;
  open: string;
  /** The id of the record whose context is shown. */
  middle: string;
  reveal: Reveal | undefined;
  /** The number of rows that were added before the first one since the answer began. */
  prepended: number;
  foot: ReactNode;
  onAt: (index: number) => void;
  onOpen: (row: Row, index: number) => void;
  /** Whether more records can be fetched now, after the last and before the first. */
  more: boolean;
  moreBefore: boolean;
  onNearEnd: () => void;
  onNearStart: () => void;
  /** Called when the list is scrolled from its start, and back. */
  onAway: (away: boolean) => void;
  onRemoveColumn: (name: string) => void;
}

/** The list of records; only visible rows are rendered. */
export function RecordList(props: Props) {
  const { count, rowAt, columns, sort, sortable, wrap, zone, stale, find, at, open, middle, reveal, foot } = props;
  const { widths: known } = usePreferences();
  const widths = useMemo(() => columns.map((name) => known[name] ?? COLUMN_PX), [columns, known]);
  const scroller = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(1_000);
  const headed = columns.length > 0;
  const list = useVirtualizer({
    count,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: 8,
    // The head of the columns is above the first row.
    scrollPaddingEnd: headed ? HEAD_PX : 0,
    getItemKey: (index) => rowAt(index)?.id ?? index,
  });
  const items = list.getVirtualItems();
  const [first, last] = [items[0]?.index ?? 0, items.at(-1)?.index ?? 0];
  const { more, moreBefore, onNearEnd, onNearStart, onAway, prepended } = props;
  const nearEnd = count > 0 && last >= count - Math.min(AHEAD, count / 2);
  useEffect(() => {
    if (nearEnd && more) onNearEnd();
  }, [nearEnd, more, onNearEnd]);
  const nearStart = count > 0 && first < AHEAD_BEFORE;
  useEffect(() => {
    if (nearStart && moreBefore) onNearStart();
  }, [nearStart, moreBefore, onNearStart]);

  useEffect(() => {
    const element = scroller.current;
    if (element === null) return;
    const resized = new ResizeObserver(() => setWidth(element.clientWidth));
    resized.observe(element);
    return () => resized.disconnect();
  }, []);

  // The heights or positions of rows have changed.
  // biome-ignore lint/correctness/useExhaustiveDependencies: measured again because of what is shown
  useEffect(() => list.measure(), [wrap, columns]);

  // Rows before the first one do not move those that are read.
  const before = useRef(prepended);
  useLayoutEffect(() => {
    const added = prepended - before.current;
    before.current = prepended;
    if (added > 0 && scroller.current !== null) scroller.current.scrollTop += added * ROW_PX;
  }, [prepended]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: each reveal scrolls once
  useLayoutEffect(() => {
    if (reveal !== undefined && reveal.index < count) list.scrollToIndex(reveal.index, { align: reveal.align });
  }, [reveal]);

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
  const columnsPx = widths.reduce((sum, width) => sum + width + GAP_PX, 0);
  // What does not fit is scrolled, and not squeezed.
  const minWidth = headed ? BEFORE_PX + columnsPx + TEXT_PX : undefined;
  const textPx = Math.max(TEXT_PX / 2, Math.max(width, minWidth ?? 0) - BEFORE_PX - columnsPx - CHIP_PX);
  const room = Math.floor(textPx / LETTER_PX);
  return (
    <div className={styles.frame}>
      <div
        ref={scroller}
        className={cx(styles.scroller, stale && styles.stale)}
        data-testid="scroller"
        onScroll={(event) => onAway(event.currentTarget.scrollTop > 2 * ROW_PX)}
      >
        {headed ? (
          <ColumnHead
            columns={columns}
            widths={widths}
            sort={sort}
            sortable={sortable}
            onRemove={props.onRemoveColumn}
          />
        ) : undefined}
        <div
          id="records"
          className={styles.inner}
          style={{ height: total, minWidth }}
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
                widths={widths}
                wrap={wrap}
                zone={zone}
                find={find}
                room={room}
                isAt={index === at}
                isOpen={row.id === open}
                around={row.id === middle ? "middle" : row.context === true ? "context" : undefined}
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
