import { cx } from "../components/cx.ts";
import { bytes, compact, count, plural, share } from "../lib/numbers.ts";
import { duration, full, short } from "../lib/times.ts";
import type { NodeFacts } from "../state/cluster.ts";
import { compared } from "./copies.ts";
import { damage, madeGood, pageOf, seen, troubles } from "./health.ts";
import { gauge, type History, lastOf, rate } from "./history.ts";
import styles from "./NodesPage.module.css";

interface Props {
  node: NodeFacts;
  /** Whether it is the node that this page is from. */
  asked: boolean;
  /** Whether there is no other. */
  alone: boolean;
  /** How the asked node was. */
  past: History | undefined;
  utc: boolean;
}

/** A node, and how it is. */
export function NodeCard({ node, asked, alone, past, utc }: Props) {
  const word = seen(node);
  const found = troubles(node, (time) => short(time, utc, Date.now()));
  const facts = node.queue.segments === undefined ? factsOfSilent(node, utc) : factsOf(node, asked ? past : null, utc);
  const page = asked ? undefined : pageOf(node);
  return (
    <article className={styles.node} aria-label={`Node ${node.id}`}>
      <header className={styles.head}>
        <h2>{node.id}</h2>
        <span className={cx(styles.tag, word === "ready" ? styles.good : word !== "left" && styles.bad)}>{word}</span>
        {node.roles.map((role) => (
          <span key={role} className={styles.tag}>
            {role}
          </span>
        ))}
        {asked && !alone ? <span className={styles.tag}>this page's node</span> : undefined}
        <span className={styles.since}>{told(node, utc)}</span>
      </header>
      {found.length === 0 ? undefined : (
        <div className={cx(styles.missing, styles.first)} role="alert">
          {found.map((trouble) => (
            <p key={trouble}>{trouble}</p>
          ))}
        </div>
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
      <Compared node={node} utc={utc} />
      <Damage node={node} />
      <p className={styles.addresses}>
        {page === undefined ? undefined : <a href={page}>Its page</a>}
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
function told(node: NodeFacts, utc: boolean): string {
  if (node.version !== undefined && node.uptime_seconds !== undefined) {
    return `version ${node.version}, up for ${duration(node.uptime_seconds)}`;
  }
  return node.since === undefined ? "" : `${node.member} since ${short(node.since, utc, Date.now())}`;
}

type Fact = [name: string, value: string, note: string];

/** What a node says of itself. The one that was asked says how it was, too, and so how busy it is. */
function factsOf(node: NodeFacts, past: History | undefined | null, utc: boolean): Fact[] {
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
    return [ingest, backlog, stored, onDisk, free, span(node, utc)];
  }
  const running = latest("bucksaw_query_in_flight", gauge);
  const scanned = latest("bucksaw_query_scanned_bytes_total", rate) ?? 0;
  const ingest = latest("bucksaw_ingest_bytes_total", rate) ?? 0;
  const records = latest("bucksaw_ingest_records_total", rate) ?? 0;
  const debt = latest("bucksaw_store_backlog_bytes", gauge);
  return [
    ["Load", running === undefined ? "–" : plural(running, "query", "queries"), `${bytes(scanned)}/s searched`],
    ["Ingest", `${bytes(ingest)}/s`, `${compact(records)} records/s`],
    backlog,
    stored,
    onDisk,
    free,
    ["Compaction debt", debt === undefined ? "–" : bytes(debt), "waits to be merged or packed"],
    span(node, utc),
  ];
}

/** What others last heard of a node that does not answer. */
function factsOfSilent(node: NodeFacts, utc: boolean): Fact[] {
  return [
    ["Backlog", bytes(node.queue.pending_bytes), "when it was last heard of"],
    ["On disk", bytes(node.store.stored_bytes), "when it was last heard of"],
    ["Disk free", bytes(node.disk_free_bytes), "when it was last heard of"],
    span(node, utc),
  ];
}

function span({ store }: NodeFacts, utc: boolean): Fact {
  return [
    "Span",
    store.oldest === null ? "–" : full(store.oldest, utc).slice(0, 16),
    store.newest === null ? "no records stored" : `to ${full(store.newest, utc).slice(0, 16)}`,
  ];
}

/** How far it has come with comparing its records with those of other stores. */
function Compared({ node, utc }: { node: NodeFacts; utc: boolean }) {
  const said = compared(node, (time) => short(time, utc, Date.now()));
  if (said === undefined) return undefined;
  const done = node.repair?.progress;
  return (
    <div className={styles.compared}>
      <p>{said}</p>
      {done === undefined ? undefined : <progress value={done} aria-label="Compared" />}
    </div>
  );
}

function Damage({ node }: { node: NodeFacts }) {
  if (node.damaged === undefined) return undefined;
  if (damage(node) === 0) {
    return <p className={styles.whole}>{madeGood(node) ?? "Nothing is damaged: its answers are whole."}</p>;
  }
  const broken = node.segments_with_damaged_blocks ?? 0;
  return (
    <div className={styles.missing} role="alert">
      <p>
        <b>Answers over some times are partial.</b> These files are damaged and were set aside; nothing of them is
        removed. See <code>bucksaw verify</code>.
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
