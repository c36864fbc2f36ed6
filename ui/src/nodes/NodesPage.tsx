import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { Button } from "../components/controls.tsx";
import { cx } from "../components/cx.ts";
import { Lost } from "../components/Empty.tsx";
import { Notice } from "../components/Notice.tsx";
import { bytes, compact, plural } from "../lib/numbers.ts";
import { clusterQuery, type NodeFacts } from "../state/cluster.ts";
import { useZone } from "../state/preferences.ts";
import { Agents } from "./AgentTable.tsx";
import { clusterHealth, inOrder } from "./health.ts";
import { gauge, type History, historyQuery, rate } from "./history.ts";
import { NodeCard } from "./NodeCard.tsx";
import styles from "./NodesPage.module.css";
import { NodeTable } from "./NodeTable.tsx";
import { nodeNames } from "./names.ts";
import { SmallChart } from "./SmallChart.tsx";

const perSecond = (what: (value: number) => string) => (value: number) => `${what(value)}/s`;

/** Above this number of nodes each is a line, so that thirty are on a screen. */
const CARDS_MAX = 4;

/** All nodes, those with problems first, and charts of the queried node over the last hour. */
export default function NodesPage() {
  const cluster = useQuery({ ...clusterQuery, refetchInterval: 2_000 });
  const past = useQuery(historyQuery);
  const zone = useZone();
  if (cluster.data === undefined) {
    if (cluster.error === null) return <main id="nodes" className={styles.page} aria-busy="true" />;
    return <Lost message={cluster.error.message} onRetry={() => cluster.refetch()} />;
  }
  const { nodes, queried_node: queriedId } = cluster.data;
  const alone = nodes.length === 1;
  const health = clusterHealth(cluster.data);
  const names = nodeNames(nodes);
  const card = (node: NodeFacts) => (
    <NodeCard
      key={node.id}
      node={node}
      name={names.get(node.id) ?? node.id}
      queried={alone || node.id === queriedId}
      alone={alone}
      past={past.data}
      zone={zone}
    />
  );
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what can be scrolled must be reachable by keys
    <main id="nodes" className={cx(styles.page, nodes.length > CARDS_MAX && styles.dense)} tabIndex={0}>
      <h1 className={styles.title}>{plural(nodes.length, "node")}</h1>
      {cluster.error === null ? undefined : (
        <Notice kind="bad">
          <p>The node does not answer ({cluster.error.message}). The figures below are old.</p>
          <Button small icon="refresh" onClick={() => cluster.refetch()}>
            Try again
          </Button>
        </Notice>
      )}
      {alone && health.healthy ? undefined : (
        <div className={styles.health}>
          <Notice kind={health.healthy ? "calm" : "caution"}>
            <p>{health.text}</p>
          </Notice>
        </div>
      )}
      {nodes.length > CARDS_MAX ? (
        <NodeTable nodes={inOrder(cluster.data)} queried={queriedId} zone={zone} details={card} />
      ) : (
        inOrder(cluster.data).map(card)
      )}
      <Agents />
      <h2 className={styles.sub}>{alone ? "The last hour" : "The last hour of the node that this page is from"}</h2>
      {past.data === undefined ? <p className={styles.note}>Loading…</p> : <Charts past={past.data} zone={zone} />}
    </main>
  );
}

function Charts({ past, zone }: { past: History; zone: string }) {
  const lines = useMemo(
    () => [
      { name: "Records in", line: rate(past, "bucksaw_ingest_records_total"), show: perSecond(compact) },
      { name: "Text in", line: rate(past, "bucksaw_ingest_bytes_total"), show: perSecond(bytes) },
      { name: "Text searched", line: rate(past, "bucksaw_query_scanned_bytes_total"), show: perSecond(bytes) },
      { name: "Queries", line: rate(past, "bucksaw_query_answers_total"), show: perSecond(compact) },
      { name: "Backlog", line: gauge(past, "bucksaw_ingest_pending_bytes"), show: bytes },
      { name: "Compaction backlog", line: gauge(past, "bucksaw_store_backlog_bytes"), show: bytes },
      { name: "On disk", line: gauge(past, "bucksaw_store_stored_bytes"), show: bytes },
      { name: "Disk free", line: gauge(past, "bucksaw_disk_free_bytes"), show: bytes },
    ],
    [past],
  );
  return (
    <div className={styles.charts}>
      {lines.map((line) => (
        <SmallChart key={line.name} {...line} zone={zone} />
      ))}
    </div>
  );
}
