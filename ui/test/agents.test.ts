import { describe, expect, it } from "vitest";
import { agentProblems, lagText, lossText, seenText } from "../src/nodes/agentText.ts";
import type { AgentFacts } from "../src/state/agents.ts";

const agent = (more: Partial<AgentFacts> = {}): AgentFacts => ({
  id: "0123456789abcdef0123456789abcdef",
  host: "web-1",
  version: "0.1.0",
  node: "n",
  connected: true,
  seen_seconds: 2,
  files: 3,
  unreadable_files: 0,
  lag_bytes: 0,
  lag_seconds: 0,
  buffer_bytes: 0,
  gaps: 0,
  dropped_records: 0,
  acked_records: 9,
  ...more,
});

describe("an agent", () => {
  it("that is well has no lag and no losses", () => {
    const well = agent();
    expect([lagText(well), lossText(well), seenText(well)]).toEqual(["none", "none", "now"]);
    expect(Object.values(agentProblems(well))).toEqual([false, false, false, false]);
  });

  it("with problems tells each", () => {
    const ill = agent({
      connected: false,
      seen_seconds: 40,
      unreadable_files: 1,
      lag_bytes: 3_200_000,
      lag_seconds: 61,
      gaps: 1,
      dropped_records: 1_031,
    });
    expect([lagText(ill), lossText(ill), seenText(ill)]).toEqual([
      `3.2 MB, ${"1 min"}`,
      "1 gap, 1,031 dropped",
      "40 s ago",
    ]);
    expect(Object.values(agentProblems(ill))).toEqual([true, true, true, true]);
  });
});
