import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import type { Range } from "../lib/ranges.ts";
import { type ClusterFacts, clusterQuery, isEmpty, queriedNode } from "../state/cluster.ts";
import { Button, IconButton } from "./controls.tsx";
import { copy } from "./copy.ts";
import styles from "./Empty.module.css";

/** While there is nothing to show yet. It appears only when that takes a while. */
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
  /** Called when the node, which had no record at all, has one. */
  onFirst: () => void;
}

/** Nothing matched: because there is nothing at all yet, or because of what was asked. */
export function NoMatch({ q, range, onQuery, onRange, onFirst }: NoMatchProps) {
  const { data } = useQuery({ ...clusterQuery, refetchInterval: 1_500 });
  if (data !== undefined && isEmpty(data)) return <FirstVisit cluster={data} onFirst={onFirst} />;
  const wider = ["1d", "7d", "30d"].filter((from) => range.to !== "" || from !== range.from);
  return (
    <div className={styles.state} role="status">
      <h2>No record matches</h2>
      <p>{q === "" ? "Nothing was accepted in this time." : "Nothing in this time is as the filter asks."}</p>
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

/** `HOST:PORT` to reach a listener from where this browser is. */
function reachable(address: string | undefined): { host: string; port: string } | undefined {
  const found = /^(.*):(\d+)$/.exec(address ?? "");
  if (found?.[1] === undefined || found[2] === undefined) return undefined;
  // Listeners on all addresses are reached by the name that the page was reached by.
  const host = /^(0\.0\.0\.0|\[::\])$/.test(found[1]) ? location.hostname : found[1];
  return { host, port: found[2] };
}

function FirstVisit({ cluster, onFirst }: { cluster: ClusterFacts; onFirst: () => void }) {
  // Whoever shows something else in place of this has seen the first record.
  useEffect(() => onFirst, [onFirst]);
  const addresses = queriedNode(cluster)?.addresses ?? {};
  const fast = reachable(addresses.fast);
  const commands: [title: string, command: string][] = [
    ["With curl", `echo 'hello from curl' | curl --data-binary @- '${location.origin}/api/v1/ingest?label=app=hello'`],
  ];
  if (fast !== undefined) {
    const to = `${fast.host}:${fast.port}`;
    commands.unshift(["With netcat: a line a record", `echo 'hello from netcat' | nc -q1 ${fast.host} ${fast.port}`]);
    commands.push(
      [
        "With Bucksaw: acknowledged, labelled, and again after a lost connection",
        `echo 'hello from bucksaw' | bucksaw forward --to ${to} --label app=hello`,
      ],
      [
        "Sample logs, fifty lines a second",
        `bucksaw generate --rate 50 | bucksaw forward --to ${to} --label app=sample`,
      ],
    );
  }
  return (
    <div className={styles.state}>
      <h2>Send the first line</h2>
      <p>
        This node is ready and has no records yet. Copy one of these into a terminal; what you send is here at once.
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

/** The node could not be asked, and there is nothing to show from before. */
export function Lost({ message, onRetry }: { message: string; onRetry: () => void }) {
  return (
    <div className={styles.state} role="alert">
      <h2>The node does not answer</h2>
      <p>
        {message}. Look whether it runs, and whether this browser can reach <code>{location.host}</code>.
      </p>
      <Button look="primary" icon="refresh" onClick={onRetry}>
        Try again
      </Button>
    </div>
  );
}
