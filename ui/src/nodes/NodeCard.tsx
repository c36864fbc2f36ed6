import { cx } from "../components/cx.ts";
import { bytes, compact, count, plural, share } from "../lib/numbers.ts";
import { duration, full, short } from "../lib/times.ts";
import type { NodeFacts } from "../state/cluster.ts";
import { HeadRoom } from "./HeadRoom.tsx";
import { acceptedRisk, damage, nodeState, pageOf, problems, reReplicatedDamage } from "./health.ts";
import { gauge, type History, lastOf, rate } from "./history.ts";
import styles from "./NodesPage.module.css";
import { Pipeline } from "./Pipeline.tsx";
import { repairProgress } from "./replication.ts";

interface Props {
  node: NodeFacts;
  name: string;
  /** Whether this page comes from the node. */
  queried: boolean;
  /** Whether it is the only node. */
  alone: boolean;
  /** Metrics of the queried node over the last hour. */
  past: History | undefined;
  zone: string;
}

/** A node with its state, problems and figures. */
export function NodeCard({ node, name, queried, alone, past, zone }: Props) {
  const state = nodeState(node);
  const found = problems(node, (time) => short(time, zone, Date.now()));
  const facts =
    node.queue.segments === undefined ? gossipedFacts(node, zone) : factsOf(node, queried ? past : null, zone);
  const page = queried ? undefined : pageOf(node);
  const risk = acceptedRisk(node);
  return (
    <article className={styles.node} aria-label={`Node ${name}`}>
      <header className={styles.head}>
        <h2>{name}</h2>
        <span className={cx(styles.tag, state === "ready" ? styles.good : state !== "left" && styles.bad)}>
          {state}
        </span>
        {node.roles.map((role) => (
          <span key={role} className={styles.tag}>
            {role}
          </span>
        ))}
        {queried && !alone ? <span className={styles.tag}>this page's node</span> : undefined}
        <span className={styles.since}>{stateText(node, zone)}</span>
      </header>
      {found.length === 0 ? undefined : (
        <div className={cx(styles.missing, styles.first)} role="alert">
          {found.map((trouble) => (
            <p key={trouble}>{trouble}</p>
          ))}
        </div>
      )}
      {risk === undefined ? undefined : (
        <p className={styles.risk} role="note">
          {risk}
        </p>
      )}
      <dl className={cx(styles.facts, facts.length === 6 && styles.six)}>
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
      <HeadRoom node={node} />
      <Pipeline node={node} zone={zone} />
      <RepairProgress node={node} zone={zone} />
      <Damage node={node} />
      <p className={styles.addresses}>
        {page === undefined ? undefined : <a href={page}>Its page</a>}
        <span>
          id <code>{node.id}</code>
        </span>
        {Object.entries(node.addresses).map(([name, address]) => (
          <span key={name}>
            {name} <code>{address}</code>
          </span>
        ))}
      </p>
    </article>
  );
}

/** Since when it runs, or is gone. */
function stateText(node: NodeFacts, zone: string): string {
  if (node.version !== undefined && node.uptime_seconds !== undefined) {
    return `version ${node.version}, up for ${duration(node.uptime_seconds)}`;
  }
  return node.since === undefined ? "" : `${node.membership} since ${short(node.since, zone, Date.now())}`;
}

type Fact = [name: string, value: string, note: string];

/** Figures that a node reports. The queried node has a history too, from which its load follows. */
function factsOf(node: NodeFacts, past: History | undefined | null, zone: string): Fact[] {
  const { queue, store } = node;
  const latest = (name: string, of: typeof rate) => (past == null ? undefined : lastOf(of(past, name)));
  const segments = `${plural(queue.pending_segments ?? 0, "segment")}, the oldest`;
  const text = store.text_bytes ?? 0;
  const backlog: Fact = [
    "Backlog",
    bytes(queue.pending_bytes),
    `${segments} ${duration(queue.oldest_pending_seconds ?? 0)}`,
  ];
  const stored: Fact = [
    "Stored",
    bytes(text),
    `${count(store.records ?? 0)} records in ${plural(store.segments ?? 0, "segment")}`,
  ];
  const onDisk: Fact = [
    "On disk",
    bytes(store.stored_bytes),
    text === 0 ? "nothing yet" : `${share(store.stored_bytes, text)} of the text`,
  ];
  const free: Fact = [
    "Disk free",
    bytes(node.disk_free_bytes),
    node.state === "disk full" ? "nothing is accepted" : "of the data directory",
  ];
  if (past === null) {
    const { bytes_per_second: speed = 0, connections = 0 } = node.load ?? {};
    const ingest: Fact = ["Ingest", `${bytes(speed)}/s`, plural(connections, "connection")];
    return [ingest, backlog, stored, onDisk, free, span(node, zone)];
  }
  const running = latest("bucksaw_query_in_flight", gauge);
  const scanned = latest("bucksaw_query_scanned_bytes_total", rate) ?? 0;
  const ingest = latest("bucksaw_ingest_bytes_total", rate) ?? 0;
  const records = latest("bucksaw_ingest_records_total", rate) ?? 0;
  const unmerged = latest("bucksaw_store_backlog_bytes", gauge);
  return [
    ["Load", running === undefined ? "–" : plural(running, "query", "queries"), `${bytes(scanned)}/s searched`],
    ["Ingest", `${bytes(ingest)}/s`, `${compact(records)} records/s`],
    backlog,
    stored,
    onDisk,
    free,
    ["Compaction backlog", unmerged === undefined ? "–" : bytes(unmerged), "text that waits to be merged or encoded"],
    span(node, zone),
  ];
}

/** The last gossiped figures of a node that does not answer. */
function gossipedFacts(node: NodeFacts, zone: string): Fact[] {
  return [
    ["Backlog", bytes(node.queue.pending_bytes), "as last gossiped"],
    ["On disk", bytes(node.store.stored_bytes), "as last gossiped"],
    ["Disk free", bytes(node.disk_free_bytes), "as last gossiped"],
    span(node, zone),
  ];
}

function span({ store }: NodeFacts, zone: string): Fact {
  return [
    "Span",
    store.oldest === null ? "–" : full(store.oldest, zone).slice(0, 16),
    store.newest === null ? "no records stored" : `to ${full(store.newest, zone).slice(0, 16)}`,
  ];
}

/** Progress of comparing its records with those of other stores. */
function RepairProgress({ node, zone }: { node: NodeFacts; zone: string }) {
  const text = repairProgress(node, (time) => short(time, zone, Date.now()));
  if (text === undefined) return undefined;
  const done = node.repair?.progress;
  return (
    <div className={styles.compared}>
      <p>{text}</p>
      {done === undefined ? undefined : <progress value={done} aria-label="Compared" />}
    </div>
  );
}

function Damage({ node }: { node: NodeFacts }) {
  if (node.damaged === undefined) return undefined;
  if (damage(node) === 0) {
    return (
      <p className={styles.whole}>{reReplicatedDamage(node) ?? "Nothing is damaged: its answers are complete."}</p>
    );
  }
  const broken = node.segments_with_damaged_blocks ?? 0;
  return (
    <div className={styles.missing} role="alert">
      <p>
        <b>Answers over some times are partial.</b> These files are damaged and quarantined; retention does not remove
        them. See <code>bucksaw verify</code>.
      </p>
      <ul>
        {node.damaged.map((name) => (
          <li key={name}>{name}</li>
        ))}
        {broken > 0 ? <li>{plural(broken, "segment")} with damaged blocks</li> : undefined}
      </ul>
    </div>
  );
}
