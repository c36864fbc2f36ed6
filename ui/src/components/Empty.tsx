import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import type { Range } from "../lib/ranges.ts";
import { type ClusterFacts, clusterQuery, isEmpty } from "../state/cluster.ts";
import { Button } from "./controls.tsx";
import styles from "./Empty.module.css";
import { SendLogs } from "./SendLogs.tsx";

/** A placeholder for records that are being loaded; the style sheet delays it. */
export function Loading() {
  const widths = [62, 88, 45, 73, 91, 55, 68, 80, 38, 77, 60, 84];
  return (
    <div className={styles.skeleton} role="status">
      <span className="unseen">Searching…</span>
      {widths.map((width) => (
        <div key={width} style={{ width: `${width}%` }} />
      ))}
    </div>
  );
}

interface NoMatchProps {
  q: string;
  range: Range;
  onQuery: (q: string) => void;
  onRange: (range: Range) => void;
  /** Called when an empty node gets its first record. */
  onFirst: () => void;
}

/** Calls `onFirst` when an empty node has got its first record. */
export function useOnFirst(empty: boolean, onFirst: () => void) {
  const before = useRef(empty);
  const latest = useRef(onFirst);
  latest.current = onFirst;
  useEffect(() => {
    if (before.current && !empty) latest.current();
    before.current = empty;
  }, [empty]);
}

/** Shown when no record matches: instructions for an empty node, else suggestions for the search. */
export function NoMatch({ q, range, onQuery, onRange, onFirst }: NoMatchProps) {
  const { data } = useQuery({ ...clusterQuery, refetchInterval: 1_500 });
  const empty = data !== undefined && isEmpty(data);
  useOnFirst(empty, onFirst);
  if (empty) return <FirstVisit cluster={data} />;
  const wider = ["1d", "7d", "30d"].filter((from) => range.to !== "" || from !== range.from);
  return (
    <div className={styles.state} role="status">
      <h2>No record matches</h2>
      <p>{q === "" ? "No record was accepted in this range." : "No record in this range matches the filter."}</p>
      <div className={styles.choices}>
        {wider.map((from) => (
          <Button key={from} onClick={() => onRange({ from, to: "" })}>
            Last {from === "1d" ? "day" : `${from.slice(0, -1)} days`}
          </Button>
        ))}
        {/^[^\s()"/=<>-][^\s()=<>]*$/.test(q) ? (
          <Button onClick={() => onQuery(`"${q}"i`)}>
            Any case: <span className={styles.term}>"{q}"i</span>
          </Button>
        ) : undefined}
        {q === "" ? undefined : <Button onClick={() => onQuery("")}>Without the filter</Button>}
      </div>
    </div>
  );
}

/** Shown for a node without records. */
export function FirstVisit({ cluster }: { cluster: ClusterFacts }) {
  return (
    <div className={styles.state}>
      <h2>Send the first line</h2>
      <p>
        This node is ready and has no records yet. Run one of these commands in a terminal; the records appear here at
        once.
      </p>
      <SendLogs cluster={cluster} />
      <p className={styles.waiting} role="status">
        <span className={styles.pulse} /> Waiting for the first record…
      </p>
    </div>
  );
}

/** Shown when the node does not answer and no earlier answer exists. */
export function Lost({ message, onRetry }: { message: string; onRetry: () => void }) {
  return (
    <div className={styles.state} role="alert">
      <h2>The node does not answer</h2>
      <p>
        {message}. Check that it runs, and that this browser can reach <code>{location.host}</code>.
      </p>
      <Button look="primary" icon="refresh" onClick={onRetry}>
        Try again
      </Button>
    </div>
  );
}
