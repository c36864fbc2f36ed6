import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import type { Range } from "../lib/ranges.ts";
import { type ClusterFacts, clusterQuery, isEmpty, queriedNode } from "../state/cluster.ts";
import { Button, IconButton } from "./controls.tsx";
import { copy } from "./copy.ts";
import styles from "./Empty.module.css";

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

/** Shown when no record matches: instructions for an empty node, else suggestions for the search. */
export function NoMatch({ q, range, onQuery, onRange, onFirst }: NoMatchProps) {
  const { data } = useQuery({ ...clusterQuery, refetchInterval: 1_500 });
  if (data !== undefined && isEmpty(data)) return <FirstVisit cluster={data} onFirst={onFirst} />;
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

/** The host and port of a listener as seen from this browser. */
function reachable(address: string | undefined): { host: string; port: string } | undefined {
  const found = /^(.*):(\d+)$/.exec(address ?? "");
  if (found?.[1] === undefined || found[2] === undefined) return undefined;
  // A listener on a wildcard address is reached under the page's host name.
  const host = /^(0\.0\.0\.0|\[::\])$/.test(found[1]) ? location.hostname : found[1];
  return { host, port: found[2] };
}

function FirstVisit({ cluster, onFirst }: { cluster: ClusterFacts; onFirst: () => void }) {
  // This component is removed when the first record is seen.
  useEffect(() => onFirst, [onFirst]);
  const addresses = queriedNode(cluster)?.addresses ?? {};
  const fast = reachable(addresses.fast);
  const commands: [title: string, command: string][] = [
    ["With curl", `echo 'hello from curl' | curl --data-binary @- '${location.origin}/api/v1/ingest?label=app=hello'`],
  ];
  if (fast !== undefined) {
    const to = `${fast.host}:${fast.port}`;
    commands.unshift([
      "With netcat: one record per line",
      `echo 'hello from netcat' | nc -q1 ${fast.host} ${fast.port}`,
    ]);
    commands.push(
      [
        "With Bucksaw: acknowledged, labelled, and retried after a lost connection",
        `echo 'hello from bucksaw' | bucksaw forward --to ${to} --label app=hello`,
      ],
      [
        "Sample logs, 50 lines per second",
        `bucksaw generate --rate 50 | bucksaw forward --to ${to} --label app=sample`,
      ],
    );
  }
  return (
    <div className={styles.state}>
      <h2>Send the first line</h2>
      <p>
        This node is ready and has no records yet. Run one of these commands in a terminal; the records appear here at
        once.
      </p>
      <div className={styles.commands}>
        {commands.map(([title, command]) => (
          <section key={title} className={styles.command}>
            <h3>{title}</h3>
            <div className={styles.code}>
              {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what can be scrolled must be reachable by keys */}
              <pre tabIndex={0}>{command}</pre>
              <IconButton small icon="copy" name={`Copy: ${title}`} onClick={() => copy(command, "the command")} />
            </div>
          </section>
        ))}
      </div>
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
