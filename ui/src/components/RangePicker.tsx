import { Popover } from "@base-ui/react/popover";
import { type FormEvent, useState } from "react";
import { durationMs, momentMs, normalizeMoment, QUICK, type Range, rangeName } from "../lib/ranges.ts";
import { short } from "../lib/times.ts";
import { Button, controls } from "./controls.tsx";
import { cx } from "./cx.ts";
import styles from "./RangePicker.module.css";

interface Props {
  range: Range;
  utc: boolean;
  open: boolean;
  onOpen: (open: boolean) => void;
  onChange: (range: Range) => void;
}

/** The time range: presets, or typed times. */
export function RangePicker({ range, utc, open, onOpen, onChange }: Props) {
  const name = rangeName(range, (iso) => short(iso, utc, Date.now()));
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
            <ul>
              {QUICK.map((quick) => (
                <li key={quick.from}>
                  <button
                    type="button"
                    className={controls.item}
                    aria-pressed={range.to === "" && range.from === quick.from}
                    onClick={() => choose({ from: quick.from, to: "" })}
                  >
                    {quick.name}
                    <span className={controls.note}>{quick.from}</span>
                  </button>
                </li>
              ))}
            </ul>
            <Typed range={range} utc={utc} onChoose={choose} />
          </Popover.Popup>
        </Popover.Positioner>
      </Popover.Portal>
    </Popover.Root>
  );
}

function Typed({ range, utc, onChoose }: { range: Range; utc: boolean; onChoose: (range: Range) => void }) {
  const shown = (text: string) => (text === "" || durationMs(text) !== undefined ? text : local(text, utc));
  const [from, setFrom] = useState(shown(range.from));
  const [to, setTo] = useState(shown(range.to));
  const [problem, setProblem] = useState("");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const now = Date.now();
    const typed = { from: normalizeMoment(from, utc, now), to: normalizeMoment(to, utc, now) };
    if (typed.from === undefined || typed.to === undefined) {
      setProblem(`${typed.from === undefined ? "From" : "To"} is no time: write 15m, 2026-11-20 23:10 or RFC 3339.`);
    } else if ((momentMs(typed.from, now) ?? 0) >= (momentMs(typed.to, now) ?? 0)) {
      setProblem("From must be earlier than to.");
    } else onChoose({ from: typed.from === "" ? "1h" : typed.from, to: typed.to });
  };
  return (
    <form onSubmit={submit}>
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
      {problem === "" ? undefined : (
        <p className={styles.problem} role="alert">
          {problem}
        </p>
      )}
      <Button type="submit" look="primary">
        Apply
      </Button>
      <p className={styles.hint}>
        <code>15m</code>, <code>1h30m</code> and <code>2d</code> are that long ago. Times without a zone are{" "}
        {utc ? "UTC" : "local"}. Unix seconds are understood, too.
      </p>
    </form>
  );
}

function local(iso: string, utc: boolean): string {
  const at = momentMs(iso, 0);
  if (at === undefined || utc) return iso;
  const shifted = new Date(at - new Date(at).getTimezoneOffset() * 60_000).toISOString();
  // Keep times that are finer than a millisecond as they were typed.
  return /\.\d{4,}/.test(iso)
    ? iso
    : shifted
        .slice(0, 23)
        .replace("T", " ")
        .replace(/\.000$/, "");
}
