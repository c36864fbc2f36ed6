import { call } from "../state/streams.ts";

/** The node's last hour, as returned by `/api/v1/history`. */
export interface History {
  step_seconds: number;
  times: string[];
  series: Record<string, number[]>;
}

export const historyQuery = {
  queryKey: ["history"],
  queryFn: ({ signal }: { signal: AbortSignal }) => call<History>("history", {}, signal),
  refetchInterval: 5_000,
};

/** Values over time: `[Unix seconds, values]`. */
export type Line = [at: number[], values: (number | null)[]];

/** The values of a gauge. */
export function gauge(history: History, name: string): Line {
  return [history.times.map(seconds), history.series[name] ?? []];
}

/** The rate of a counter per second. */
export function rate(history: History, name: string): Line {
  const at = history.times.map(seconds);
  const values = history.series[name] ?? [];
  const rates = values.map((value, index) => {
    const [before, then, now] = [values[index - 1], at[index - 1], at[index]];
    if (before === undefined || then === undefined || now === undefined || now <= then) return null;
    return Math.max(0, (value - before) / (now - then));
  });
  return [at, rates];
}

/** The last known value. */
export function lastOf([, values]: Line): number | undefined {
  return values.findLast((value) => value !== null) ?? undefined;
}

function seconds(time: string): number {
  return Date.parse(time) / 1_000;
}
