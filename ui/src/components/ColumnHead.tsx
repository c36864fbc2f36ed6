import { Menu } from "@base-ui/react/menu";
import { type KeyboardEvent, type PointerEvent, useRef, useState } from "react";
import type { Sort } from "../lib/url.ts";
import { setWidth } from "../state/preferences.ts";
import { moveColumn, sortBy } from "./actions.ts";
import styles from "./ColumnHead.module.css";
import { controls } from "./controls.tsx";
import { cx } from "./cx.ts";
import { Icon } from "./Icon.tsx";

/** Bounds of the width of a column, and one step of the keys. */
const WIDTH_MIN = 48;
const WIDTH_MAX = 900;
const STEP = 16;

interface Props {
  columns: readonly string[];
  widths: readonly number[];
  sort: Sort | undefined;
  /** Whether the rows can be sorted. */
  sortable: boolean;
  onRemove: (name: string) => void;
}

/** The heads of columns: sorted, moved and removed by their menus, moved by dragging, and resized at their edges. */
export function ColumnHead({ columns, widths, sort, sortable, onRemove }: Props) {
  return (
    <div className={styles.head}>
      <span className={styles.time}>time</span>
      {columns.map((name, at) => (
        <Cell
          key={name}
          name={name}
          at={at}
          last={at === columns.length - 1}
          width={widths[at] ?? WIDTH_MIN}
          sort={sort?.name === name ? sort : undefined}
          sortable={sortable}
          onRemove={onRemove}
        />
      ))}
      <span className={styles.text}>record</span>
    </div>
  );
}

interface CellProps {
  name: string;
  at: number;
  last: boolean;
  width: number;
  sort: Sort | undefined;
  sortable: boolean;
  onRemove: (name: string) => void;
}

const DRAGGED = "application/x-bucksaw-column";

function Cell({ name, at, last, width, sort, sortable, onRemove }: CellProps) {
  const [over, setOver] = useState(false);
  const [open, setOpen] = useState(false);
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: dragging is another way to what the menu does
    <span
      className={cx(styles.column, over && styles.over)}
      style={{ width }}
      data-column={name}
      draggable
      onDragStart={(event) => {
        // The press that begins a drag has opened the menu.
        setOpen(false);
        event.dataTransfer.setData(DRAGGED, name);
        event.dataTransfer.effectAllowed = "move";
      }}
      onDragOver={(event) => {
        if (!event.dataTransfer.types.includes(DRAGGED)) return;
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        setOver(false);
        const dragged = event.dataTransfer.getData(DRAGGED);
        if (dragged !== "" && dragged !== name) moveColumn(dragged, at);
      }}
    >
      <Menu.Root modal={false} open={open} onOpenChange={setOpen}>
        <Menu.Trigger className={styles.name} aria-label={`Column ${name}${sortText(sort)}`}>
          <span>{name}</span>
          {sort === undefined ? undefined : <Icon name={sort.descending ? "down" : "up"} />}
        </Menu.Trigger>
        <Menu.Portal>
          <Menu.Positioner sideOffset={4} align="start" className={controls.layer}>
            <Menu.Popup className={controls.popup}>
              <Menu.Item className={controls.item} disabled={!sortable} onClick={() => sortBy(name, false)}>
                <Icon name="up" /> Sort the loaded records, ascending
              </Menu.Item>
              <Menu.Item className={controls.item} disabled={!sortable} onClick={() => sortBy(name, true)}>
                <Icon name="down" /> Sort the loaded records, descending
              </Menu.Item>
              {sort === undefined ? undefined : (
                <Menu.Item className={controls.item} onClick={() => sortBy(name, undefined)}>
                  <Icon name="clock" /> By time again
                </Menu.Item>
              )}
              <Menu.Item className={controls.item} disabled={at === 0} onClick={() => moveColumn(name, at - 1)}>
                <Icon name="left" /> Move left
              </Menu.Item>
              <Menu.Item className={controls.item} disabled={last} onClick={() => moveColumn(name, at + 1)}>
                <Icon name="right" /> Move right
              </Menu.Item>
            </Menu.Popup>
          </Menu.Positioner>
        </Menu.Portal>
      </Menu.Root>
      <button
        type="button"
        className={styles.remove}
        aria-label={`Remove the column ${name}`}
        onClick={() => onRemove(name)}
      >
        <Icon name="close" />
      </button>
      <Edge name={name} width={width} />
    </span>
  );
}

function sortText(sort: Sort | undefined): string {
  if (sort === undefined) return "";
  return sort.descending ? ", sorted descending" : ", sorted ascending";
}

/** The edge that resizes a column. */
function Edge({ name, width }: { name: string; width: number }) {
  const start = useRef<{ x: number; width: number } | undefined>(undefined);
  const set = (wanted: number) => setWidth(name, Math.max(WIDTH_MIN, Math.min(wanted, WIDTH_MAX)));
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -STEP, ArrowRight: STEP }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    set(width + step);
  };
  const onPointerMove = (event: PointerEvent) => {
    if (start.current !== undefined) set(start.current.width + event.clientX - start.current.x);
  };
  return (
    // biome-ignore lint/a11y/useSemanticElements: a separator that can be moved is no thematic break
    <span
      className={styles.edge}
      role="separator"
      tabIndex={0}
      aria-orientation="vertical"
      aria-label={`Width of the column ${name}`}
      aria-valuenow={width}
      aria-valuemin={WIDTH_MIN}
      aria-valuemax={WIDTH_MAX}
      draggable
      onDragStart={(event) => {
        // Dragging the edge resizes the column and does not move it.
        event.preventDefault();
        event.stopPropagation();
      }}
      onPointerDown={(event) => {
        event.preventDefault();
        event.currentTarget.setPointerCapture(event.pointerId);
        start.current = { x: event.clientX, width };
      }}
      onPointerMove={onPointerMove}
      onPointerUp={() => {
        start.current = undefined;
      }}
      onKeyDown={onKeyDown}
    />
  );
}
