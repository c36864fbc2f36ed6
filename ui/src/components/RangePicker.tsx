import { Popover } from "@base-ui/react/popover";
import { type FormEvent, lazy, Suspense, useMemo, useState } from "react";
import type { DateRange } from "react-day-picker";
import { isRelative, momentMs, normalizeMoment, QUICK, type Range, rangeName } from "../lib/ranges.ts";
import { short } from "../lib/times.ts";
import { localZone, offsetName, wallClock, zoneNames } from "../lib/zones.ts";
import { prefer, usePreferences, useZone } from "../state/preferences.ts";
import { Button, controls } from "./controls.tsx";
import { cx } from "./cx.ts";
import styles from "./RangePicker.module.css";

const Calendar = lazy(() => import("./Calendar.tsx"));

interface Props {
  range: Range;
  open: boolean;
  onOpen: (open: boolean) => void;
  onChange: (range: Range) => void;
}

/** The time range: presets, typed times, days of a calendar; and the zone of all shown times. */
export function RangePicker({ range, open, onOpen, onChange }: Props) {
  const zone = useZone();
  const name = rangeName(range, (iso) => short(iso, zone, Date.now()));
  const choose = (range: Range) => {
    onOpen(false);
    onChange(range);
  };
  return (
    <Popover.Root open={open} onOpenChange={onOpen}>
      <Popover.Trigger render={<Button icon="clock" aria-label={`Time range: ${name}`} />}>
        <span className={styles.name}>{name}</span>
      </Popover.Trigger>
      <Popover.Portal>
        <Popover.Positioner sideOffset={4} align="end" className={controls.layer}>
          <Popover.Popup className={cx(controls.popup, styles.popup)} aria-label="Time range">
            <ul className={styles.quick}>
              {QUICK.map((quick) => (
                <li key={quick.name}>
                  <button
                    type="button"
                    className={controls.item}
                    aria-pressed={range.to === (quick.to ?? "") && range.from === quick.from}
                    onClick={() => choose({ from: quick.from, to: quick.to ?? "" })}
                  >
                    {quick.name}
                    {isRelative(quick.from) && /\d/.test(quick.from) ? (
                      <span className={controls.note}>{quick.from}</span>
                    ) : undefined}
                  </button>
                </li>
              ))}
            </ul>
            <Typed key={`${range.from} ${range.to} ${zone}`} range={range} zone={zone} onChoose={choose} />
          </Popover.Popup>
        </Popover.Positioner>
      </Popover.Portal>
    </Popover.Root>
  );
}

function Typed({ range, zone, onChoose }: { range: Range; zone: string; onChoose: (range: Range) => void }) {
  const shown = (text: string) => (text === "" || isRelative(text) ? text : local(text, zone));
  const [from, setFrom] = useState(shown(range.from));
  const [to, setTo] = useState(shown(range.to));
  const [problem, setProblem] = useState("");
  const [now] = useState(() => Date.now());
  const days = useMemo((): DateRange | undefined => {
    const [first, last] = [momentMs(from, now, zone), momentMs(to, now, zone)];
    if (first === undefined || last === undefined || first > last) return undefined;
    // A range up to midnight ends on the day before.
    return { from: dayOf(first, zone), to: dayOf(Math.max(first, last - 1), zone) };
  }, [from, to, zone, now]);
  const onDays = (days: DateRange | undefined) => {
    if (days?.from === undefined) return;
    const last = days.to ?? days.from;
    setFrom(`${dateText(days.from)} 00:00`);
    const next = new Date(last.getFullYear(), last.getMonth(), last.getDate() + 1);
    setTo(next > dayOf(now, zone) ? "" : `${dateText(next)} 00:00`);
    setProblem("");
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const typed = { from: normalizeMoment(from, zone, now), to: normalizeMoment(to, zone, now) };
    if (typed.from === undefined || typed.to === undefined) {
      const which = typed.from === undefined ? "From" : "To";
      setProblem(`${which} is no time: write 15m, now-15m, today, 10:30, 2026-11-20 23:10 or RFC 3339.`);
    } else if ((momentMs(typed.from, now, zone) ?? 0) >= (momentMs(typed.to, now, zone) ?? 0)) {
      setProblem("From must be earlier than to.");
    } else onChoose({ from: typed.from === "" ? "1h" : typed.from, to: typed.to });
  };
  return (
    <form onSubmit={submit} className={styles.form}>
      <div className={styles.typed}>
        <label className={styles.label}>
          From
          <input
            className={controls.field}
            value={from}
            onChange={(event) => setFrom(event.target.value)}
            spellCheck={false}
          />
        </label>
        <label className={styles.label}>
          To
          <input
            className={controls.field}
            value={to}
            placeholder="now"
            onChange={(event) => setTo(event.target.value)}
            spellCheck={false}
          />
        </label>
      </div>
      {problem === "" ? undefined : (
        <p className={styles.problem} role="alert">
          {problem}
        </p>
      )}
      <Suspense fallback={<div className={styles.days} />}>
        <div className={styles.days}>
          <Calendar selected={days} today={dayOf(now, zone)} onSelect={onDays} />
        </div>
      </Suspense>
      <ZoneChoice />
      <Button type="submit" look="primary">
        Apply
      </Button>
    </form>
  );
}

/** The zone of all times that the page shows, and of typed times without one. */
function ZoneChoice() {
  const { zone } = usePreferences();
  const here = localZone();
  const now = Date.now();
  return (
    <label className={styles.label}>
      Time zone
      <select className={controls.field} value={zone} onChange={(event) => prefer({ zone: event.target.value })}>
        <option value="">
          Local: {here} ({offsetName(now, here)})
        </option>
        <option value="UTC">UTC</option>
        {zoneNames().map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

/** A day in a zone, as the calendar wants it: midnight of the browser's zone. */
function dayOf(ms: number, zone: string): Date {
  const wall = wallClock(ms, zone);
  return new Date(wall.getUTCFullYear(), wall.getUTCMonth(), wall.getUTCDate());
}

function dateText(day: Date): string {
  const two = (number: number) => String(number).padStart(2, "0");
  return `${day.getFullYear()}-${two(day.getMonth() + 1)}-${two(day.getDate())}`;
}

/** A time of the state as the user writes it. */
function local(iso: string, zone: string): string {
  const at = momentMs(iso, 0, zone);
  // Keep times that are finer than a millisecond as they were typed.
  if (at === undefined || zone === "UTC" || /\.\d{4,}/.test(iso)) return iso;
  return wallClock(at, zone)
    .toISOString()
    .slice(0, 23)
    .replace("T", " ")
    .replace(/\.000$/, "")
    .replace(/:00$/, "");
}
