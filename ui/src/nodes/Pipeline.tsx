import { cx } from "../components/cx.ts";
import { bytes, count, plural } from "../lib/numbers.ts";
import { duration, short } from "../lib/times.ts";
import type { KafkaFacts, NodeFacts, TopicFacts } from "../state/cluster.ts";
import styles from "./Pipeline.module.css";

/** Topics that are shown. */
const TOPICS_MAX = 8;

/** What a node reads from Kafka and what waits for ClickHouse. Nothing is shown of a node with neither. */
export function Pipeline({ node, zone }: { node: NodeFacts; zone: string }) {
  const { kafka, sink, database } = node;
  return (
    <>
      {kafka === undefined ? undefined : <Kafka kafka={kafka} zone={zone} />}
      {sink === undefined ? undefined : (
        <p className={styles.line}>
          <b>ClickHouse</b> {sink.waiting_inserts === 0 ? "Nothing waits" : waitingText(sink)}
          <small>
            beside the segments, to <code>{sink.address}</code>
          </small>
        </p>
      )}
      {database === undefined ? undefined : (
        <p className={styles.line}>
          <b>ClickHouse</b>{" "}
          {node.queue.pending_bytes === 0 ? "Nothing waits" : `${bytes(node.queue.pending_bytes)} wait in the queue`}
          <small>
            as the store, <code>{database.address}</code>
          </small>
        </p>
      )}
    </>
  );
}

function waitingText(sink: NonNullable<NodeFacts["sink"]>): string {
  return `${plural(sink.waiting_inserts, "insert")} of ${bytes(sink.waiting_bytes)} ${sink.waiting_inserts === 1 ? "waits" : "wait"}`;
}

function Kafka({ kafka, zone }: { kafka: KafkaFacts; zone: string }) {
  const shown = kafka.topics.slice(0, TOPICS_MAX);
  const left = kafka.topics.length - shown.length + kafka.topics_left_out;
  return (
    <section aria-label="Kafka">
      <p className={styles.line}>
        <b>Kafka</b> {lagText(kafka.lag, kafka.behind_seconds)}
        <small>
          group <code>{kafka.group}</code>, {plural(kafka.partitions, "partition")}, {count(kafka.connected_workers)} of{" "}
          {plural(kafka.workers, "worker")} connected
        </small>
      </p>
      {kafka.last_failure === null ? undefined : (
        <p className={styles.failure}>
          Last failure{kafka.last_failure_at === null ? "" : ` at ${short(kafka.last_failure_at, zone, Date.now())}`}:{" "}
          {kafka.last_failure}
        </p>
      )}
      {shown.length === 0 ? undefined : (
        <table className={styles.topics}>
          <thead>
            <tr>
              <th scope="col">Topic</th>
              <th scope="col">Partitions</th>
              <th scope="col">Lag</th>
              <th scope="col" title="Messages that do not fit their mapping; messaging.kafka.undecoded finds them">
                Undecoded
              </th>
            </tr>
          </thead>
          <tbody>
            {shown.map((topic) => (
              <Topic key={topic.topic} topic={topic} />
            ))}
          </tbody>
        </table>
      )}
      {left > 0 ? <p className={styles.failure}>{plural(left, "more topic")}, with less lag.</p> : undefined}
    </section>
  );
}

function Topic({ topic }: { topic: TopicFacts }) {
  return (
    <tr data-topic={topic.topic}>
      <th scope="row">{topic.topic}</th>
      <td>{count(topic.partitions)}</td>
      <td>
        {count(topic.lag)}
        {topic.lag === 0 || !topic.behind_seconds ? undefined : <small>{duration(topic.behind_seconds)} behind</small>}
      </td>
      <td className={cx(topic.undecoded > 0 && styles.bad)}>{count(topic.undecoded)}</td>
    </tr>
  );
}

/** `1,234 messages behind by 5 min`. */
function lagText(lag: number, behind: number | null): string {
  if (lag === 0) return "All is read";
  return behind === null || behind < 1
    ? plural(lag, "message")
    : `${plural(lag, "message")}, ${duration(behind)} behind`;
}
