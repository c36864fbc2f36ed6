import styles from "./Start.module.css";

interface Props {
  counts: readonly number[] | undefined;
  errors: readonly number[] | undefined;
}

const WIDTH = 160;
const HEIGHT = 24;

/** The bars of values, as the path of a drawing. */
function bars(values: readonly number[], top: number): string {
  const step = WIDTH / Math.max(values.length, 1);
  return values
    .map((value, at) => {
      if (value === 0) return "";
      const height = Math.max(1, (value / top) * HEIGHT);
      return `M${(at * step).toFixed(1)} ${HEIGHT}v${(-height).toFixed(1)}h${(step * 0.8).toFixed(1)}v${height.toFixed(1)}z`;
    })
    .join("");
}

/** The records of a stream over time, and its errors. */
export function Sparkline({ counts, errors }: Props) {
  const top = Math.max(1, ...(counts ?? []));
  return (
    <svg
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      width={WIDTH}
      height={HEIGHT}
      preserveAspectRatio="none"
      aria-hidden="true"
      focusable="false"
      data-counted={counts !== undefined}
    >
      <path d={bars(counts ?? [], top)} className={styles.volume} />
      <path d={bars(errors ?? [], top)} className={styles.failed} />
    </svg>
  );
}
