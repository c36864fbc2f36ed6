import { Fragment, type ReactNode, useState } from "react";
import { cx } from "../components/cx.ts";
import { Icon } from "../components/Icon.tsx";
import { bytes, count, plural } from "../lib/numbers.ts";
import { short } from "../lib/times.ts";
import type { NodeFacts } from "../state/cluster.ts";
import { firstLimit, warnings } from "./headRoomText.ts";
import { damage, nodeState, problems } from "./health.ts";
import styles from "./NodesPage.module.css";
import { nodeNames } from "./names.ts";

interface Props {
  nodes: readonly NodeFacts[];
  queried: string | undefined;
  zone: string;
  /** The details of a node. */
  details: (node: NodeFacts) => ReactNode;
}

/** Many nodes, a line each, which opens its details. */
export function NodeTable({ nodes, queried, zone, details }: Props) {
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const names = nodeNames(nodes);
  const hasHeadRoom = nodes.some((node) => node.head_room !== undefined);
  const columns = hasHeadRoom ? 10 : 9;
  const toggle = (id: string) => {
    const next = new Set(open);
    if (!next.delete(id)) next.add(id);
    setOpen(next);
  };
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what can be scrolled must be reachable by keys
    <section className={styles.sideways} tabIndex={0} aria-label="Nodes">
      <table className={styles.table}>
        <thead>
          <tr>
            <th scope="col">Node</th>
            <th scope="col">State</th>
            <th scope="col">Roles</th>
            <th scope="col">Ingest</th>
            <th scope="col">Backlog</th>
            <th scope="col">Records</th>
            <th scope="col">On disk</th>
            <th scope="col">Disk free</th>
            {hasHeadRoom ? <th scope="col">Head-room</th> : undefined}
            <th scope="col">Version</th>
          </tr>
        </thead>
        <tbody>
          {nodes.map((node) => {
            const state = nodeState(node);
            const found = problems(node, (time) => short(time, zone, Date.now()));
            const damaged = damage(node);
            if (damaged > 0) found.push(`${plural(damaged, "file or segment")} with damage.`);
            found.push(...warnings(node));
            const limit = firstLimit(node);
            const isOpen = open.has(node.id);
            return (
              <Fragment key={node.id}>
                <tr data-node={node.id}>
                  <th scope="row">
                    <button type="button" aria-expanded={isOpen} title={node.id} onClick={() => toggle(node.id)}>
                      <Icon name={isOpen ? "down" : "right"} />
                      {names.get(node.id)}
                      {node.id === queried ? <small>this page's node</small> : undefined}
                    </button>
                  </th>
                  <td>
                    <span
                      className={cx(styles.state, state === "ready" ? styles.good : state !== "left" && styles.bad)}
                    >
                      {state}
                    </span>
                  </td>
                  <td>{node.roles.join(", ")}</td>
                  <td>{node.load === undefined ? "–" : `${bytes(node.load.bytes_per_second)}/s`}</td>
                  <td>{bytes(node.queue.pending_bytes)}</td>
                  <td>{node.store.records === undefined ? "–" : count(node.store.records)}</td>
                  <td>{bytes(node.store.stored_bytes)}</td>
                  <td>{bytes(node.disk_free_bytes)}</td>
                  {hasHeadRoom ? <td className={cx(limit.near && styles.near)}>{limit.text}</td> : undefined}
                  <td>{node.version ?? "–"}</td>
                </tr>
                {found.length > 0 && !isOpen ? (
                  <tr className={styles.trouble}>
                    <td colSpan={columns}>{found.join(" ")}</td>
                  </tr>
                ) : undefined}
                {isOpen ? (
                  <tr>
                    <td colSpan={columns} className={styles.details}>
                      {details(node)}
                    </td>
                  </tr>
                ) : undefined}
              </Fragment>
            );
          })}
        </tbody>
      </table>
    </section>
  );
}
