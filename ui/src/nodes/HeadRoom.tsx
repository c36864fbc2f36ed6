import { cx } from "../components/cx.ts";
import type { NodeFacts } from "../state/cluster.ts";
import styles from "./HeadRoom.module.css";
import { basis, limits, warnings } from "./headRoomText.ts";

/** How much more load a node can carry, and a warning if that is little. Nothing is shown of a node that does not report it. */
export function HeadRoom({ node }: { node: NodeFacts }) {
  const room = node.head_room;
  if (room === undefined) return undefined;
  if (room === null) {
    return (
      <p className={styles.line}>
        <b>Head-room</b> Not known yet
        <small>the node measures it for half a minute first</small>
      </p>
    );
  }
  const found = warnings(node);
  return (
    <div data-testid="head-room">
      <p className={styles.line}>
        <b>Head-room</b>
        {limits(room).map(({ text, near }) => (
          <span key={text} className={cx(near && styles.near)}>
            {text}
          </span>
        ))}
        <small>{basis(room)}</small>
      </p>
      {found.length === 0 ? undefined : (
        <div className={styles.warnings} role="note">
          {found.map((warning) => (
            <p key={warning}>{warning}</p>
          ))}
        </div>
      )}
    </div>
  );
}
