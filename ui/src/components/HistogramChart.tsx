import "uplot/dist/uPlot.min.css";
import { type KeyboardEvent, useEffect, useRef } from "react";
import uPlot from "uplot";
import { compact, plural } from "../lib/numbers.ts";
import { tick } from "../lib/times.ts";
import { bars } from "../state/session.ts";
import type { Bucket } from "../worker/messages.ts";
import { described, type Part, part } from "./barParts.ts";
import styles from "./Histogram.module.css";
import { usePalette } from "./palette.ts";

const HEIGHT = 104;
const LINES = ["fg-soft", "line"] as const;

/** The height of a count on the axis. */
function scaled(value: number, logarithmic: boolean): number {
  return logarithmic ? Math.log10(1 + value) : value;
}

/** Cumulative heights of the parts, the first at the bottom; drawn from the highest to the lowest. */
function stacked(buckets: readonly Bucket[], parts: readonly Part[], logarithmic: boolean): uPlot.AlignedData {
  const sums = buckets.map(() => 0);
  const heights = parts.map((one) =>
    buckets.map((bucket, at) => {
      sums[at] = (sums[at] ?? 0) + part(bucket, one, parts);
      return scaled(sums[at] ?? 0, logarithmic);
    }),
  );
  return [buckets.map((bucket) => Date.parse(bucket.from)), ...heights.reverse()];
}

/** The ticks of the axis: nothing, half and all, or powers of ten. */
function ticksUpTo(max: number, logarithmic: boolean): number[] {
  if (!logarithmic) return [0, max / 2, max].map((split) => (max > 4 ? Math.round(split) : split));
  const step = Math.max(1, Math.ceil(max / 3));
  const powers = Array.from({ length: Math.floor(max / step) + 1 }, (_, at) => at * step);
  return powers.map((power) => (power === 0 ? 0 : Math.log10(1 + 10 ** power)));
}

/** The bar under the pointer or the keyboard cursor. */
export interface At {
  index: number;
  left: number;
}

interface ChartProps {
  buckets: readonly Bucket[];
  parts: readonly Part[];
  logarithmic: boolean;
  zone: string;
  at: number | undefined;
  onAt: (at: At | undefined) => void;
  onZoom: (fromMs: number, toMs: number) => void;
}

/** The bars, with zoom by dragging, clicks, and arrow keys. */
export function HistogramChart({ buckets, parts, logarithmic, zone, at, onAt, onZoom }: ChartProps) {
  const frame = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const latest = useRef({ buckets, parts, onAt, onZoom });
  latest.current = { buckets, parts, onAt, onZoom };
  const colours = parts.map(({ colour }) => colour).join(" ");
  const bar = usePalette(colours.split(" "));
  const line = usePalette(LINES);
  const ready = line["fg-soft"] !== undefined;

  useEffect(() => {
    const element = frame.current;
    if (element === null || !ready) return;
    const edges = (): [number, number] => {
      const { buckets } = latest.current;
      return [Date.parse(buckets[0]?.from ?? ""), Date.parse(buckets.at(-1)?.to ?? "")];
    };
    const width = () => Math.max(element.clientWidth - 24, 60);
    const { bars: barPaths } = uPlot.paths;
    const paths = barPaths?.({ size: [0.92, 200], align: 1 });
    const axis = { stroke: line["fg-soft"], font: "11px system-ui, sans-serif", ticks: { show: false } };
    let dragged = false;
    const chart = new uPlot(
      {
        width: width(),
        height: HEIGHT,
        ms: 1,
        padding: [8, 16, 0, 0],
        legend: { show: false },
        tzDate: (ms) => uPlot.tzDate(new Date(ms), zone === "UTC" ? "Etc/UTC" : zone),
        cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false, dist: 5 } },
        scales: {
          x: { time: true, range: () => edges() },
          y: { range: (_, __, max) => [0, Math.max(max ?? 0, scaled(1, logarithmic))] },
        },
        axes: [
          {
            ...axis,
            size: 22,
            gap: 2,
            space: 70,
            grid: { show: false },
            values: (_, at) => at.map((ms) => tick(ms, at, zone)),
          },
          {
            ...axis,
            size: 40,
            gap: 4,
            grid: { stroke: line.line ?? "", width: 1 },
            values: (_, splits) =>
              splits.map((split) => {
                const value = logarithmic ? Math.round(10 ** split - 1) : split;
                return Number.isInteger(value) ? compact(value) : "";
              }),
            splits: (_, __, ___, max) => ticksUpTo(max, logarithmic),
          },
        ],
        series: [
          {},
          ...colours
            .split(" ")
            .reverse()
            .map((name) => ({
              fill: bar[name] ?? "transparent",
              width: 0,
              points: { show: false },
              ...(paths === undefined ? {} : { paths }),
            })),
        ],
        hooks: {
          setCursor: [
            (u) => {
              const left = u.cursor.left ?? -1;
              const index = left < 0 ? -1 : bucketAt(latest.current.buckets, u.posToVal(left, "x"));
              latest.current.onAt(index < 0 ? undefined : { index, left: left + u.bbox.left / devicePixelRatio });
            },
          ],
          setSelect: [
            (u) => {
              const { left, width } = u.select;
              if (width < 2) return;
              dragged = true;
              latest.current.onZoom(u.posToVal(left, "x"), u.posToVal(left + width, "x"));
              u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            },
          ],
        },
      },
      stacked(latest.current.buckets, latest.current.parts, logarithmic),
      element,
    );
    const click = (event: MouseEvent) => {
      const moved = dragged;
      dragged = false;
      const bucket = latest.current.buckets[bucketAt(latest.current.buckets, chart.posToVal(event.offsetX, "x"))];
      if (!moved && bucket !== undefined) latest.current.onZoom(Date.parse(bucket.from), Date.parse(bucket.to));
    };
    chart.over.addEventListener("click", click);
    chart.over.addEventListener("mousedown", () => {
      dragged = false;
    });
    const resized = new ResizeObserver(() => {
      bars.count = Math.min(160, Math.max(24, Math.round(width() / 9)));
      if (chart.width !== width()) chart.setSize({ width: width(), height: HEIGHT });
    });
    resized.observe(element);
    plot.current = chart;
    return () => {
      resized.disconnect();
      chart.destroy();
      plot.current = undefined;
    };
  }, [zone, ready, bar, line, colours, logarithmic]);

  useEffect(() => {
    plot.current?.setData(stacked(buckets, parts, logarithmic));
  }, [buckets, parts, logarithmic]);

  const move = (index: number) => {
    const bucket = buckets[index];
    const chart = plot.current;
    if (bucket === undefined || chart === undefined) return;
    const left = chart.valToPos((Date.parse(bucket.from) + Date.parse(bucket.to)) / 2, "x");
    chart.setCursor({ left, top: 10 });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const here = at ?? -1;
    const steps: Record<string, number> = {
      ArrowLeft: Math.max((at ?? buckets.length) - 1, 0),
      ArrowRight: Math.min(here + 1, buckets.length - 1),
      Home: 0,
      End: buckets.length - 1,
    };
    const step = steps[event.key];
    const bucket = buckets[here];
    if (step !== undefined) move(step);
    else if (event.key === "Enter" && bucket !== undefined) onZoom(Date.parse(bucket.from), Date.parse(bucket.to));
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const bucket = at === undefined ? undefined : buckets[at];
  return (
    <div
      ref={frame}
      className={styles.chart}
      data-testid="histogram"
      role="slider"
      tabIndex={0}
      aria-label="Matches over time: arrow keys move, Enter zooms in"
      aria-valuemin={0}
      aria-valuemax={Math.max(buckets.length - 1, 0)}
      aria-valuenow={at ?? 0}
      aria-valuetext={bucket === undefined ? plural(buckets.length, "bar") : described(bucket, parts, zone)}
      onKeyDown={onKeyDown}
    />
  );
}

function bucketAt(buckets: readonly Bucket[], ms: number): number {
  return buckets.findIndex((bucket) => Date.parse(bucket.from) <= ms && ms < Date.parse(bucket.to));
}
