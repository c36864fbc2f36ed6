import { plural } from "../lib/numbers.ts";
import { clock } from "../lib/times.ts";
import type { ContextState } from "../state/context.ts";
import { context } from "../state/session.ts";
import styles from "./ContextBar.module.css";
import { Button, IconButton } from "./controls.tsx";

interface Props {
  around: ContextState;
  newestFirst: boolean;
  zone: string;
}

/** What the context in the list is made of: its scope, and more of it on both sides. */
export function ContextBar({ around, newestFirst, zone }: Props) {
  const { record, scopes, scope, rows, earlier, later, loading, problem } = around;
  if (record === undefined) return undefined;
  const more = (side: "before" | "after") => (
    <Button
      key={side}
      small
      icon={(side === "before") === newestFirst ? "down" : "up"}
      disabled={!(side === "before" ? earlier : later) || loading}
      onClick={() => context.extend(side)}
    >
      {side === "before" ? "Earlier" : "Later"}
    </Button>
  );
  return (
    <section className={styles.bar} aria-label="Context" aria-busy={loading}>
      <p className={styles.what}>
        <b>Context of {clock(record.time, zone)}</b>
        <span title={scope?.value}>
          {plural(rows.length, "record")} of {scope?.value}
        </span>
        {problem === "" ? undefined : <span role="alert">{problem}</span>}
      </p>
      {scopes.length < 2 ? undefined : (
        // biome-ignore lint/a11y/useSemanticElements: a group of buttons is no fieldset
        <div role="group" aria-label="Scope of the context" className={styles.group}>
          {scopes.map((one) => (
            <Button
              key={one.name}
              small
              on={one.name === scope?.name}
              aria-pressed={one.name === scope?.name}
              title={one.value}
              onClick={() => context.open(record, one)}
            >
              {one.name === "stream" ? "Stream" : one.name === "host" ? "Host" : "Trace"}
            </Button>
          ))}
        </div>
      )}
      <div className={styles.group}>
        {newestFirst ? [more("after"), more("before")] : [more("before"), more("after")]}
      </div>
      <IconButton small icon="close" name="Close the context" shortcut="x" onClick={() => context.close()} />
    </section>
  );
}
