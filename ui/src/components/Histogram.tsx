import { useState } from "react";
import type { Level } from "../lib/level.ts";
import { count } from "../lib/numbers.ts";
import { short } from "../lib/times.ts";
import type { CountsState } from "../state/counts.ts";
import type { Bucket } from "../worker/messages.ts";
import { PARTS, part } from "./barParts.ts";
import { IconButton } from "./controls.tsx";
import { cx } from "./cx.ts";
import styles from "./Histogram.module.css";
import { type At, HistogramChart } from "./HistogramChart.tsx";

interface Props {
  state: CountsState;
  utc: boolean;
  busy: boolean;
  onZoom: (fromMs: number, toMs: number) => void;
  onLevel: (level: Level) => void;
  onShift: (how: "earlier" | "later" | "wider") => void;
}

/** The number of matches over time, by level. */
export function Histogram({ state, utc, busy, onZoom, onLevel, onShift }: Props) {
  const { buckets, total, counted, progress } = state;
  const [at, setAt] = useState<At | undefined>();
  const totals = PARTS.map((name) => ({ name, count: buckets.reduce((sum, bucket) => sum + part(bucket, name), 0) }));
  const anyLevel = totals.some(({ name, count }) => name !== "none" && count > 0);
  const known = total ?? counted;
  return (
    <section className={styles.frame} aria-label="Matches over time">
      {busy || (progress > 0 && progress < 1) ? (
        <div className={styles.progress}>
          <div style={{ transform: `scaleX(${Math.max(progress, 0.06)})` }} />
        </div>
      ) : undefined}
      <div className={styles.legend}>
        <p className={styles.total} data-testid="total" data-exact={total !== undefined}>
          {count(known)}
          <small>
            {" "}
            {known === 1 ? "match" : "matches"}
            {total === undefined && progress > 0 && progress < 1 ? " so far" : ""}
          </small>
        </p>
        {anyLevel
          ? totals
              .filter(({ count }) => count > 0)
              .map(({ name, count: records }) =>
                name === "none" ? (
                  <span key={name} className={styles.level} data-level={name}>
                    <i className={cx(styles.swatch, styles[name])} />
                    no level {count(records)}
                  </span>
                ) : (
                  <button
                    key={name}
                    type="button"
                    className={styles.level}
                    data-level={name}
                    title={`Only records of level ${name}`}
                    onClick={() => onLevel(name)}
                  >
                    <i className={cx(styles.swatch, styles[name])} />
                    {name} {count(records)}
                  </button>
                ),
              )
          : undefined}
        <div className={styles.right}>
          <IconButton small icon="left" name="Earlier" shortcut="[" onClick={() => onShift("earlier")} />
          <IconButton small icon="wider" name="Zoom out" shortcut="z" onClick={() => onShift("wider")} />
          <IconButton small icon="right" name="Later" shortcut="]" onClick={() => onShift("later")} />
        </div>
      </div>
      <HistogramChart buckets={buckets} utc={utc} at={at?.index} onAt={setAt} onZoom={onZoom} />
      {at === undefined || buckets[at.index] === undefined ? undefined : (
        <Tip bucket={buckets[at.index] as Bucket} left={at.left} utc={utc} />
      )}
    </section>
  );
}

function Tip({ bucket, left, utc }: { bucket: Bucket; left: number; utc: boolean }) {
  const now = Date.now();
  const right = left > innerWidth - 220;
  return (
    <div className={styles.tip} style={right ? { right: innerWidth - left } : { left: left + 26 }}>
      <b>
        {short(bucket.from, utc, now)} – {short(bucket.to, utc, now)}
      </b>
      {PARTS.filter((name) => part(bucket, name) > 0 && (name !== "none" || bucket.levels !== undefined)).map(
        (name) => (
          <span key={name}>
            <i className={cx(styles.swatch, styles[name])} />
            {name === "none" ? "no level" : name}
            <em>{count(part(bucket, name))}</em>
          </span>
        ),
      )}
      <span>
        all <em>{count(bucket.count)}</em>
      </span>
    </div>
  );
}
