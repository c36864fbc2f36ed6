import type { ClusterFacts } from "../state/cluster.ts";
import { queriedNode } from "../state/cluster.ts";
import { IconButton } from "./controls.tsx";
import { copy } from "./copy.ts";
import styles from "./Empty.module.css";

/** The host and port of a listener as seen from this browser. */
function reachable(address: string | undefined): { host: string; port: string } | undefined {
  const found = /^(.*):(\d+)$/.exec(address ?? "");
  if (found?.[1] === undefined || found[2] === undefined) return undefined;
  // A listener on a wildcard address is reached under the page's host name.
  const host = /^(0\.0\.0\.0|\[::\])$/.test(found[1]) ? location.hostname : found[1];
  return { host, port: found[2] };
}

/** Commands that send a record to the node of this page, at its addresses. */
function commandsFor(cluster: ClusterFacts): [title: string, command: string][] {
  const addresses = queriedNode(cluster)?.addresses ?? {};
  const fast = reachable(addresses.fast);
  const commands: [title: string, command: string][] = [
    ["With curl", `echo 'hello from curl' | curl --data-binary @- '${location.origin}/api/v1/ingest?label=app=hello'`],
  ];
  if (fast === undefined) return commands;
  const to = `${fast.host}:${fast.port}`;
  return [
    ["With netcat: one record per line", `echo 'hello from netcat' | nc -q1 ${fast.host} ${fast.port}`],
    ...commands,
    [
      "With Bucksaw: acknowledged, labelled, and retried after a lost connection",
      `echo 'hello from bucksaw' | bucksaw forward --to ${to} --label app=hello`,
    ],
    ["Sample logs, 50 lines per second", `bucksaw generate --rate 50 | bucksaw forward --to ${to} --label app=sample`],
  ];
}

/** Commands to copy into a terminal. */
export function SendLogs({ cluster }: { cluster: ClusterFacts }) {
  return (
    <div className={styles.commands}>
      {commandsFor(cluster).map(([title, command]) => (
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
  );
}
