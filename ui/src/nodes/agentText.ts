import { bytes, count, plural } from "../lib/numbers.ts";
import { duration } from "../lib/times.ts";
import type { AgentFacts } from "../state/agents.ts";

/** A lag beyond this many seconds is shown as a problem. `docs/forward.md` has the same limit. */
const LAG_SECONDS_MAX = 60;

/** What is unread or unacknowledged: `none`, `3.2 MB, 12 s`. */
export function lagText({ lag_bytes: size, lag_seconds: seconds }: AgentFacts): string {
  return size === 0 ? "none" : `${bytes(size)}, ${duration(seconds)}`;
}

/** What was lost: `none`, `2 gaps, 31 dropped`. */
export function lossText({ gaps, dropped_records: dropped }: AgentFacts): string {
  const parts = [];
  if (gaps > 0) parts.push(plural(gaps, "gap"));
  if (dropped > 0) parts.push(`${count(dropped)} dropped`);
  return parts.length === 0 ? "none" : parts.join(", ");
}

/** How long ago it reported: `now`, `40 s ago`. */
export function seenText({ connected, seen_seconds: seconds }: AgentFacts): string {
  if (connected && seconds < 15) return "now";
  return `${duration(seconds)} ago`;
}

/** Which cells of an agent are problems. */
export function agentProblems(agent: AgentFacts) {
  return {
    lag: agent.lag_seconds > LAG_SECONDS_MAX,
    loss: agent.gaps > 0 || agent.dropped_records > 0,
    files: agent.unreadable_files > 0,
    seen: !agent.connected,
  };
}
