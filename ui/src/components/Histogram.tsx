import { useMemo, useState } from "react";
import type { FieldFacts } from "../lib/complete.ts";
import { count } from "../lib/numbers.ts";
import { equals } from "../lib/terms.ts";
import { short } from "../lib/times.ts";
import { LEVEL_FIELD } from "../lib/url.ts";
import type { CountsState } from "../state/counts.ts";
import { prefer, usePreferences } from "../state/preferences.ts";
import type { Bucket } from "../worker/messages.ts";
import { BreakdownMenu } from "./BreakdownMenu.tsx";
import { type Part, part, partsOf } from "./barParts.ts";
import { IconButton } from "./controls.tsx";
import { cx } from "./cx.ts";
import styles from "./Histogram.module.css";
import { type At, HistogramChart } from "./HistogramChart.tsx";

interface Props {
  state: CountsState;
  /** The records that the list has, of which there are at least as many matches. */
  loaded: number;
  by: string;
  fields: readonly FieldFacts[];
  zone: string;
  busy: boolean;
  onZoom: (fromMs: number, toMs: number) => void;
  onTerm: (term: string) => void;
  onBy: (by: string) => void;
  onShift: (how: "earlier" | "later" | "wider") => void;
}

/** The number of matches over time, broken down by a field. */
export function Histogram({ state, loaded, by, fields, zone, busy, onZoom, onTerm, onBy, onShift }: Props) {
  const { buckets, total, counted, progress, groups, grouped, stale } = state;
  const { folded, logarithmic } = usePreferences();
  const [at, setAt] = useState<At | undefined>();
  const parts = useMemo(() => partsOf(state.by, groups, grouped), [state.by, groups, grouped]);
  const totals = parts.map((one) => ({
    ...one,
    count: buckets.reduce((sum, bucket) => sum + part(bucket, one, parts), 0),
  }));
  const anyGroup = totals.some(({ group, count }) => group !== undefined && count > 0);
  const counting = total === undefined && progress < 1 && !stale;
  // Loaded records are matches, whether they are counted yet or not.
  const known = total ?? (stale ? counted : Math.max(counted, loaded));
  return (
    <section className={styles.frame} aria-label="Matches over time">
      {busy || (progress > 0 && progress < 1) ? (
        <div className={styles.progress}>
          <div style={{ transform: `scaleX(${Math.max(progress, 0.06)})` }} />
        </div>
      ) : undefined}
      <div className={styles.legend}>
        <IconButton
          small
          icon={folded ? "right" : "down"}
          name={folded ? "Show the histogram" : "Fold the histogram"}
          shortcut="h"
          aria-expanded={!folded}
          onClick={() => prefer({ folded: !folded })}
        />
        <p
          className={cx(styles.total, stale && styles.before)}
          title={stale ? "of the search before" : undefined}
          data-testid="total"
          data-exact={total !== undefined}
        >
          {counting && known === 0 ? (
            <small>counting…</small>
          ) : (
            <>
              {count(known)}
              <small>
                {" "}
                {known === 1 ? "match" : "matches"}
                {counting ? " so far" : ""}
              </small>
            </>
          )}
        </p>
        {anyGroup || (grouped && state.by !== "")
          ? totals
              .filter(({ count }) => count > 0)
              .map((one) => <Group key={one.group ?? ""} by={state.by} one={one} grouped={grouped} onTerm={onTerm} />)
          : undefined}
        <div className={styles.right}>
          <BreakdownMenu by={by} fields={fields} onBy={onBy} />
          <IconButton
            small
            icon="log"
            name={logarithmic ? "Logarithmic axis: use a linear one" : "Use a logarithmic axis"}
            on={logarithmic}
            aria-pressed={logarithmic}
            onClick={() => prefer({ logarithmic: !logarithmic })}
          />
          <IconButton small icon="left" name="Earlier" shortcut="[" onClick={() => onShift("earlier")} />
          <IconButton small icon="wider" name="Zoom out" shortcut="z" onClick={() => onShift("wider")} />
          <IconButton small icon="right" name="Later" shortcut="]" onClick={() => onShift("later")} />
        </div>
      </div>
      {folded ? undefined : (
        <>
          <HistogramChart
            buckets={buckets}
            parts={parts}
            logarithmic={logarithmic}
            zone={zone}
            at={at?.index}
            onAt={setAt}
            onZoom={onZoom}
          />
          {at === undefined || buckets[at.index] === undefined ? undefined : (
            <Tip bucket={buckets[at.index] as Bucket} parts={parts} left={at.left} zone={zone} />
          )}
        </>
      )}
    </section>
  );
}

interface GroupProps {
  by: string;
  one: Part & { count: number };
  grouped: boolean;
  onTerm: (term: string) => void;
}

/** A group in the legend. It filters by the same test that the node counts by. */
function Group({ by, one, grouped, onTerm }: GroupProps) {
  const { group, name, colour, count: records } = one;
  const value = group ?? (by === LEVEL_FIELD && grouped ? "none" : undefined);
  const inner = (
    <>
      <i className={cx(styles.swatch, styles[colour])} />
      <span className={styles.group}>{name}</span> {count(records)}
    </>
  );
  const key = value ?? (grouped ? "other" : "uncounted");
  if (value === undefined) {
    return (
      <span className={styles.level} data-level={key}>
        {inner}
      </span>
    );
  }
  const term = equals(by, value);
  return (
    <button type="button" className={styles.level} data-level={key} title={`Only ${term}`} onClick={() => onTerm(term)}>
      {inner}
    </button>
  );
}

function Tip({ bucket, parts, left, zone }: { bucket: Bucket; parts: readonly Part[]; left: number; zone: string }) {
  const now = Date.now();
  const right = left > innerWidth - 220;
  const shown = parts.map((one) => ({ ...one, count: part(bucket, one, parts) })).filter(({ count }) => count > 0);
  return (
    <div className={styles.tip} style={right ? { right: innerWidth - left } : { left: left + 26 }}>
      <b>
        {short(bucket.from, zone, now)} – {short(bucket.to, zone, now)}
      </b>
      {parts.length === 1
        ? undefined
        : shown.map(({ group, name, colour, count: records }) => (
            <span key={group ?? ""}>
              <i className={cx(styles.swatch, styles[colour])} />
              {name}
              <em>{count(records)}</em>
            </span>
          ))}
      <span>
        all <em>{count(bucket.count)}</em>
      </span>
    </div>
  );
}
