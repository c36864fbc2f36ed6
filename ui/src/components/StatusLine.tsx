import { bytes, compact, count, plural } from "../lib/numbers.ts";
import { duration } from "../lib/times.ts";
import type { Sort } from "../lib/url.ts";
import { type AnswerState, ROWS_MAX } from "../state/answer.ts";
import type { CountsState } from "../state/counts.ts";
import { answer, tail } from "../state/session.ts";
import { TAIL_ROWS_MAX, type TailState } from "../state/tail.ts";
import type { Stats } from "../worker/messages.ts";
import { Button } from "./controls.tsx";
import styles from "./Explore.module.css";
import { Notice } from "./Notice.tsx";

interface StatusLineProps {
  following: boolean;
  found: AnswerState;
  counted: CountsState;
  followed: TailState;
  sort: Sort | undefined;
}

/** The status line: what the answer covers. */
export function StatusLine({ following, found, counted, followed, sort }: StatusLineProps) {
  if (following) {
    const state = {
      off: "",
      connecting: "Connecting…",
      live: "Live",
      lost: "Connection lost",
      refused: "Not followed",
    }[followed.status];
    const { away } = followed;
    const without = away.length === 1 ? ` without ${away[0]}` : ` without ${plural(away.length, "node")}`;
    return (
      <p className={styles.status} data-testid="status">
        <b className={followed.status === "lost" || followed.status === "refused" ? styles.live : undefined}>
          {followed.paused ? "Paused" : state}
        </b>
        {away.length > 0 && followed.status === "live" ? (
          <span className={styles.without} title={away.join(", ")}>
            {without}
          </span>
        ) : undefined}{" "}
        · {compact(followed.rate)} records/s · {plural(followed.rows.length - followed.notices, "record")} here
        {followed.rows.dropped > 0 ? `, ${count(followed.rows.dropped)} older ones dropped` : ""}
      </p>
    );
  }
  const stats = counted.stats ?? found.stats;
  const busy = found.status === "loading" || found.status === "stale";
  return (
    <p className={styles.status} role="status" data-testid="status" data-status={found.status}>
      {busy ? "Searching… " : ""}
      {found.emptied
        ? "No record matches: those of the search before are shown"
        : `${plural(found.count, "record")} loaded`}
      {sort === undefined ? "" : `, sorted by ${sort.name}: only these`}
      {stats === undefined
        ? ""
        : ` · searched ${bytes(stats.bytes_scanned)}, skipped ${bytes(stats.bytes_skipped)} in ${duration(stats.seconds)}`}
      {stats !== undefined && stats.nodes_asked !== stats.nodes_answered
        ? ` · ${stats.nodes_answered} of ${stats.nodes_asked} nodes answered${(stats.nodes_missing ?? [])
            .map((missing) => `, ${missing.message}`)
            .join("")}`
        : ""}
    </p>
  );
}

/** Notices about records missing in live mode, and why. */
export function TailNotices({ followed }: { followed: TailState }) {
  const { paused, waiting, skipped, skippedBytes, gaps, status, message } = followed;
  return (
    <>
      {status === "refused" ? (
        <Notice kind="bad">
          <p>This expression cannot be followed ({message}). What is shown came before.</p>
        </Notice>
      ) : undefined}
      {status === "lost" ? (
        <Notice kind="bad">
          <p>The connection to the node is lost ({message}). Reconnecting…</p>
        </Notice>
      ) : undefined}
      {gaps > 0 && status === "live" ? (
        <Notice kind="caution">
          <p>
            The connection was lost {gaps === 1 ? "once" : `${gaps} times`}: records of that time may be missing here. A
            search finds them.
          </p>
        </Notice>
      ) : undefined}
      {skipped > 0 || skippedBytes > 0 ? (
        <Notice kind="caution">
          <p data-testid="skipped">
            Too many matches to show: {skipped > 0 ? `${plural(skipped, "matching record")} not shown` : ""}
            {skippedBytes > 0 ? ` ${bytes(skippedBytes)} skipped` : ""}. They are counted above, and a search finds
            them.
          </p>
        </Notice>
      ) : undefined}
      {paused ? (
        <Notice kind="calm">
          <p data-testid="waiting">
            Paused. {plural(waiting, "new record")}
            {waiting > TAIL_ROWS_MAX ? `, of which the newest ${count(TAIL_ROWS_MAX)} are kept` : ""}.
          </p>
          <Button small icon="play" onClick={() => tail.resume()}>
            Resume
          </Button>
        </Notice>
      ) : status === "live" ? (
        <Notice kind="calm">
          <p>New records appear as they are accepted.</p>
          <Button small icon="pause" onClick={() => tail.pause()}>
            Pause
          </Button>
        </Notice>
      ) : undefined}
    </>
  );
}

interface FootProps {
  following: boolean;
  found: AnswerState;
  followed: TailState;
  rows: number;
  sort: Sort | undefined;
}

/** The text after the last record. */
export function ListFoot({ following, found, followed, rows, sort }: FootProps) {
  if (following) {
    if (rows === 0 && followed.status === "live")
      return <p>No record of the last hour matches. Waiting for the next…</p>;
    return undefined;
  }
  if (found.full) {
    return (
      <p>
        The page keeps {count(Math.min(found.count, ROWS_MAX))} records. Narrow the range to see others, or download
        all.
      </p>
    );
  }
  if (found.status === "loading" && rows > 0) return <p>Loading more…</p>;
  if (found.more) {
    return (
      <>
        {sort === undefined ? undefined : <p>Only these records are sorted; more of them match.</p>}
        <Button small onClick={() => answer.more()}>
          Load more
        </Button>
      </>
    );
  }
  return rows > 0 && found.status === "ready" ? <p>No more records.</p> : undefined;
}

/** Records that retention removed and that can still be restored. */
export function Trashed({ stats }: { stats: Stats | undefined }) {
  const segments = stats?.trashed_segments ?? 0;
  if (segments === 0) return undefined;
  return (
    <Notice kind="calm">
      <p>
        {plural(segments, "segment")} with {plural(stats?.trashed_records ?? 0, "record")} of this range{" "}
        {segments === 1 ? "is" : "are"} in the trash and not shown: retention removed {segments === 1 ? "it" : "them"}.
      </p>
    </Notice>
  );
}
