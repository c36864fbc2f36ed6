import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { Button } from "../components/controls.tsx";
import { cx } from "../components/cx.ts";
import { clusterQuery, Lost, type NodeFacts } from "../components/Empty.tsx";
import { Notice } from "../components/Notice.tsx";
import { bytes, compact, count, plural, share } from "../lib/numbers.ts";
import { duration, full } from "../lib/times.ts";
import { usePreferences } from "../state/preferences.ts";
import { gauge, type History, historyQuery, lastOf, rate } from "./history.ts";
import styles from "./NodesPage.module.css";
import { SmallChart } from "./SmallChart.tsx";

const perSecond = (what: (value: number) => string) => (value: number) => `${what(value)}/s`;

/** The nodes, how they are, and how the one that is asked was over the last hour. */
export default function NodesPage() {
  const cluster = useQuery({ ...clusterQuery, refetchInterval: 2_000 });
  const past = useQuery(historyQuery);
  const { utc } = usePreferences();
  if (cluster.data === undefined) {
    if (cluster.error === null) return <main id="nodes" className={styles.page} aria-busy="true" />;
    return <Lost message={cluster.error.message} onRetry={() => cluster.refetch()} />;
  }
  const { nodes } = cluster.data;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what can be scrolled must be reachable by keys
    <main id="nodes" className={styles.page} tabIndex={0}>
      <h1 className={styles.title}>{plural(nodes.length, "node")}</h1>
      {cluster.error === null ? undefined : (
        <Notice kind="bad">
          <p>The node does not answer ({cluster.error.message}). What is shown is from before.</p>
          <Button small icon="refresh" onClick={() => cluster.refetch()}>
            Try again
          </Button>
        </Notice>
      )}
      {nodes.map((node) => (
        <Node key={node.id} node={node} past={past.data} utc={utc} />
      ))}
      <h2 className={styles.sub}>The last hour</h2>
      {past.data === undefined ? <p className={styles.note}>Looking…</p> : <Charts past={past.data} utc={utc} />}
    </main>
  );
}

function Node({ node, past, utc }: { node: NodeFacts; past: History | undefined; utc: boolean }) {
  const { queue, store } = node;
  const latest = (name: string, of: typeof rate) => (past === undefined ? undefined : lastOf(of(past, name)));
  const ingest = latest("bucksaw_ingest_bytes_total", rate);
  const records = latest("bucksaw_ingest_records_total", rate);
  const running = latest("bucksaw_query_in_flight", gauge);
  const scanned = latest("bucksaw_query_scanned_bytes_total", rate);
  const debt = latest("bucksaw_store_debt_bytes", gauge);
  const facts: [name: string, value: string, note: string][] = [
    ["Load", running === undefined ? "–" : plural(running, "query", "queries"), `${bytes(scanned ?? 0)}/s searched`],
    ["Ingest", `${bytes(ingest ?? 0)}/s`, `${compact(records ?? 0)} records/s`],
    [
      "Backlog",
      bytes(queue.pending_bytes),
      `${plural(queue.pending_segments, "segment")}, the oldest ${duration(queue.oldest_pending_seconds)}`,
    ],
    ["Stored", bytes(store.text_bytes), `${count(store.records)} records in ${plural(store.segments, "segment")}`],
    [
      "On disk",
      bytes(store.stored_bytes),
      store.text_bytes === 0 ? "nothing yet" : `${share(store.stored_bytes, store.text_bytes)} of the text`,
    ],
    [
      "Disk free",
      bytes(node.disk_free_bytes),
      node.state === "disk full" ? "nothing is accepted" : "of the data directory",
    ],
    ["Compaction debt", debt === undefined ? "–" : bytes(debt), "waits to be merged or packed"],
    [
      "Span",
      store.oldest === null ? "–" : full(store.oldest, utc).slice(0, 16),
      store.newest === null ? "no records stored" : `to ${full(store.newest, utc).slice(0, 16)}`,
    ],
  ];
  const damaged = node.damaged.length + node.segments_with_damaged_blocks;
  return (
    <article className={styles.node} aria-label={`Node ${node.id}`}>
      <header className={styles.head}>
        <h2>{node.id}</h2>
        <span className={cx(styles.tag, node.state === "ready" ? styles.good : styles.bad)}>{node.state}</span>
        {node.roles.map((role) => (
          <span key={role} className={styles.tag}>
            {role}
          </span>
        ))}
        <span className={styles.since}>
          version {node.version}, up for {duration(node.uptime_seconds)}
        </span>
      </header>
      <dl className={styles.facts}>
        {facts.map(([name, value, note]) => (
          <div key={name} className={styles.fact}>
            <dt>{name}</dt>
            <dd>
              {value}
              <small>{note}</small>
            </dd>
          </div>
        ))}
      </dl>
      {damaged === 0 ? (
        <p className={styles.whole}>Nothing is damaged: answers are whole.</p>
      ) : (
        <div className={styles.missing} role="alert">
          <p>
            <b>Answers over some times are partial.</b> These files are damaged and were set aside; nothing of them is
            removed. See <code>bucksaw verify</code>.
          </p>
          <ul>
            {node.damaged.map((name) => (
              <li key={name}>{name}</li>
            ))}
            {node.segments_with_damaged_blocks > 0 ? (
              <li>{plural(node.segments_with_damaged_blocks, "segment")} with damaged blocks</li>
            ) : undefined}
          </ul>
        </div>
      )}
      <p className={styles.addresses}>
        {Object.entries(node.addresses).map(([name, address]) => (
          <span key={name}>
            {name} <code>{address}</code>
          </span>
        ))}
      </p>
    </article>
  );
}

function Charts({ past, utc }: { past: History; utc: boolean }) {
  const lines = useMemo(
    () => [
      { name: "Records in", line: rate(past, "bucksaw_ingest_records_total"), show: perSecond(compact) },
      { name: "Text in", line: rate(past, "bucksaw_ingest_bytes_total"), show: perSecond(bytes) },
      { name: "Text searched", line: rate(past, "bucksaw_query_scanned_bytes_total"), show: perSecond(bytes) },
      { name: "Queries", line: rate(past, "bucksaw_query_answers_total"), show: perSecond(compact) },
      { name: "Backlog", line: gauge(past, "bucksaw_ingest_pending_bytes"), show: bytes },
      { name: "Compaction debt", line: gauge(past, "bucksaw_store_debt_bytes"), show: bytes },
      { name: "On disk", line: gauge(past, "bucksaw_store_stored_bytes"), show: bytes },
      { name: "Disk free", line: gauge(past, "bucksaw_disk_free_bytes"), show: bytes },
    ],
    [past],
  );
  return (
    <div className={styles.charts}>
      {lines.map((line) => (
        <SmallChart key={line.name} {...line} utc={utc} />
      ))}
    </div>
  );
}
