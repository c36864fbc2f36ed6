import "uplot/dist/uPlot.min.css";
import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import { usePalette } from "../components/palette.ts";
import { short, tick } from "../lib/times.ts";
import { type Line, lastOf } from "./history.ts";
import styles from "./NodesPage.module.css";

const COLOURS = ["accent", "fg-soft", "line"] as const;
const HEIGHT = 92;

interface Props {
  name: string;
  line: Line;
  show: (value: number) => string;
  zone: string;
}

/** A line over the last hour, with the current value or that under the pointer. */
export function SmallChart({ name, line, show, zone }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const [at, setAt] = useState<number | undefined>();
  const latest = useRef({ line, show });
  latest.current = { line, show };
  const palette = usePalette(COLOURS);
  const ready = palette.accent !== undefined;
  useEffect(() => {
    const element = frame.current;
    if (element === null || !ready) return;
    const axis = { stroke: palette["fg-soft"], font: "10.5px system-ui, sans-serif", ticks: { show: false } };
    const grid = { stroke: palette.line, width: 1 };
    const chart = new uPlot(
      {
        width: Math.max(element.clientWidth, 60),
        height: HEIGHT,
        padding: [6, 0, 0, 0],
        legend: { show: false },
        tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1_000), zone === "UTC" ? "Etc/UTC" : zone),
        cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
        scales: { y: { range: (_, __, max) => [0, Math.max(max ?? 0, Number.MIN_VALUE) * 1.1 || 1] } },
        axes: [
          {
            ...axis,
            size: 20,
            gap: 2,
            space: 60,
            grid: { show: false },
            values: (_, at) =>
              at.map((seconds) =>
                tick(
                  seconds * 1_000,
                  at.map((other) => other * 1_000),
                  zone,
                ),
              ),
          },
          {
            ...axis,
            grid,
            size: 58,
            gap: 4,
            splits: (_, __, ___, max) => [0, max / 2, max],
            values: (_, splits) => splits.map((split) => latest.current.show(split)),
          },
        ],
        series: [
          {},
          {
            stroke: palette.accent,
            width: 1.5,
            fill: `color-mix(in srgb, ${palette.accent} 14%, transparent)`,
            points: { show: false },
          },
        ],
        hooks: { setCursor: [(u) => setAt(u.cursor.idx ?? undefined)] },
      },
      latest.current.line,
      element,
    );
    const resized = new ResizeObserver(() =>
      chart.setSize({ width: Math.max(element.clientWidth, 60), height: HEIGHT }),
    );
    resized.observe(element);
    plot.current = chart;
    return () => {
      resized.disconnect();
      chart.destroy();
      plot.current = undefined;
    };
  }, [ready, palette, zone]);
  useEffect(() => {
    plot.current?.setData(line);
  }, [line]);
  const value = (at === undefined ? undefined : line[1][at]) ?? (at === undefined ? lastOf(line) : undefined);
  const when = at === undefined ? undefined : line[0][at];
  return (
    <figure className={styles.chart}>
      <h3>
        {name}
        <span>
          {value === undefined ? "–" : show(value)}
          {when === undefined ? "" : ` at ${short(new Date(when * 1_000).toISOString(), zone, Date.now())}`}
        </span>
      </h3>
      <div ref={frame} className={styles.plot} role="img" aria-label={`${name} over the last hour`} />
    </figure>
  );
}
