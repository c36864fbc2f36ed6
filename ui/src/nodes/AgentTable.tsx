import { useQuery } from "@tanstack/react-query";
import { cx } from "../components/cx.ts";
import { bytes, count, plural } from "../lib/numbers.ts";
import { type AgentFacts, agentsQuery } from "../state/agents.ts";
import styles from "./AgentTable.module.css";
import { agentProblems, lagText, lossText, seenText } from "./agentText.ts";

/** The agents that report to the nodes, those with problems first. Nothing is shown while there are none. */
export function Agents() {
  const list = useQuery({ ...agentsQuery, refetchInterval: 5_000 });
  const agents = list.data?.agents ?? [];
  const missing = list.data?.unresponsive_nodes.length ?? 0;
  if (agents.length === 0) return undefined;
  const left = (list.data?.count ?? 0) - agents.length;
  return (
    <section className={styles.agents} aria-label="Agents">
      <h2 className={styles.title}>{plural(agents.length + left, "agent")}</h2>
      {missing > 0 ? (
        <p className={styles.note}>
          {missing === 1 ? "1 node does" : `${missing} nodes do`} not answer; its agents may be missing or old.
        </p>
      ) : undefined}
      <table className={styles.table}>
        <thead>
          <tr>
            <th scope="col">Host</th>
            <th scope="col">Version</th>
            <th scope="col">Files</th>
            <th scope="col">Lag</th>
            <th scope="col">Buffer</th>
            <th scope="col">Gaps, drops</th>
            <th scope="col">Last seen</th>
          </tr>
        </thead>
        <tbody>
          {agents.map((agent) => (
            <AgentRow key={agent.id} agent={agent} />
          ))}
        </tbody>
      </table>
      {left > 0 ? <p className={styles.note}>{plural(left, "more agent")} without problems, not listed.</p> : undefined}
    </section>
  );
}

function AgentRow({ agent }: { agent: AgentFacts }) {
  const found = agentProblems(agent);
  const unreadable = agent.unreadable_files;
  return (
    <tr data-agent={agent.id}>
      <th scope="row" title={agent.id}>
        {agent.host === "" ? agent.id.slice(0, 12) : agent.host}
      </th>
      <td data-label="Version">{agent.version === "" ? "–" : agent.version}</td>
      <td data-label="Files" className={cx(found.files && styles.bad)}>
        {count(agent.files)}
        {unreadable > 0 ? `, ${count(unreadable)} unreadable` : undefined}
      </td>
      <td data-label="Lag" className={cx(found.lag && styles.bad)}>
        {lagText(agent)}
      </td>
      <td data-label="Buffer">{bytes(agent.buffer_bytes)}</td>
      <td data-label="Gaps, drops" className={cx(found.loss && styles.bad)}>
        {lossText(agent)}
      </td>
      <td data-label="Last seen" className={cx(found.seen && styles.bad)} title={`reported to ${agent.node}`}>
        {seenText(agent)}
      </td>
    </tr>
  );
}
