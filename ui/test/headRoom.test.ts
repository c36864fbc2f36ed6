import { describe, expect, it } from "vitest";
import { about } from "../src/lib/times.ts";
import { basis, firstLimit, limits, warnings } from "../src/nodes/headRoomText.ts";
import { clusterHealth, inOrder } from "../src/nodes/health.ts";
import type { HeadRoomFacts, NodeFacts } from "../src/state/cluster.ts";

const room = (more: Partial<HeadRoomFacts> = {}): HeadRoomFacts => ({
  seconds: 60,
  cores: 2,
  cpu_cores: 0.645,
  cpu_cores_predicted: 0.5,
  cpu_full_at_load_factor: 3.19,
  disk_seconds: 3_540,
  disk_growth_bytes_per_second: 24_000,
  disk_full_in_seconds: 41.9 * 86_400,
  limited_by: "CPU",
  small: [],
  ...more,
});
const node = (head_room: HeadRoomFacts | null | undefined): NodeFacts => ({
  id: "n",
  addresses: {},
  roles: ["store"],
  state: "ready",
  queue: { pending_bytes: 0 },
  store: { stored_bytes: 0, oldest: null, newest: null },
  disk_free_bytes: 1,
  ...(head_room === undefined ? {} : { head_room }),
});
const texts = (more: Partial<HeadRoomFacts>) => limits(room(more)).map(({ text }) => text);

describe("the head-room of a node", () => {
  it.each<[string, Partial<HeadRoomFacts>, string[]]>([
    ["with enough of everything", {}, ["CPU full at 3.1× this load", "disk full in 41 days"]],
    ["with little load", { cpu_full_at_load_factor: 42.9 }, ["CPU full at 42× this load", "disk full in 41 days"]],
    [
      "with hardly any load",
      { cpu_full_at_load_factor: 700, disk_full_in_seconds: null },
      ["CPU full at over 100× this load", "disk is not filling"],
    ],
    [
      "without load",
      { cpu_full_at_load_factor: null, limited_by: null, disk_full_in_seconds: null },
      ["CPU idle", "disk is not filling"],
    ],
    [
      "whose CPU is full",
      { cpu_full_at_load_factor: 1.01, disk_seconds: null, disk_full_in_seconds: null },
      ["CPU is full", "disk not known yet"],
    ],
    [
      "whose disk is the first limit",
      { limited_by: "disk space", disk_full_in_seconds: 7_201 },
      ["disk full in 2 hours", "CPU full at 3.1× this load"],
    ],
    [
      "whose disk is full",
      { limited_by: "disk space", disk_full_in_seconds: 0 },
      ["disk is full", "CPU full at 3.1× this load"],
    ],
  ])("%s", (_, more, want) => {
    expect(texts(more)).toEqual(want);
  });

  it("says what it is computed from", () => {
    expect(basis(room())).toBe("0.65 of 2 cores in use over 1 min; the disk fills by 24.0 kB/s over 59 minutes");
    expect(basis(room({ cores: 1, disk_growth_bytes_per_second: -5 }))).toBe("0.65 of 1 core in use over 1 min");
    const young = room({ seconds: 35, disk_seconds: null, disk_growth_bytes_per_second: null });
    expect(basis(young)).toBe("0.65 of 2 cores in use over 35 s; disk growth is not known yet");
  });

  it("is a warning where it is little", () => {
    const check = (more: Partial<HeadRoomFacts>, want: string[]) => expect(warnings(node(room(more)))).toEqual(want);
    check({}, []);
    check({ small: ["CPU"], cpu_full_at_load_factor: 1.19 }, ["Its CPU is nearly full: it carries 1.1× this load."]);
    check({ small: ["CPU"], cpu_full_at_load_factor: 0.99 }, ["Its CPU is full: queries and ingest take longer."]);
    check({ small: ["disk space"], disk_full_in_seconds: 5.9 * 3_600 }, [
      "Its disk is full in 5 hours at this growth: then it accepts nothing.",
    ]);
    // The state of the node says that already.
    check({ small: ["disk space"], disk_full_in_seconds: 0 }, []);
    expect(limits(room({ small: ["CPU"] })).map(({ near }) => near)).toEqual([true, false]);
    expect(limits(room({ small: ["disk space"] })).map(({ near }) => near)).toEqual([false, true]);
  });

  it("has a short form for a table", () => {
    expect(firstLimit(node(room({ small: ["CPU"] })))).toEqual({ text: "CPU full at 3.1×", near: true });
    expect(firstLimit(node(room({ limited_by: "disk space" })))).toEqual({ text: "disk full in 41 days", near: false });
    expect(firstLimit(node(null)).text).toBe("not known yet");
    expect(firstLimit(node(undefined)).text).toBe("–");
  });

  it("is not known of a node that started or is older", () => {
    expect(warnings(node(null))).toEqual([]);
    expect(warnings(node(undefined))).toEqual([]);
  });

  it("is in the health of the cluster, behind its problems", () => {
    const busy = node(room({ small: ["CPU"] }));
    const health = clusterHealth({ nodes: [busy, node(room()), node(null)] });
    expect(health).toEqual({
      healthy: false,
      text: "1 node has little head-room. Replication factor 1, 1 store alive.",
    });
    const halted = { ...node(room()), state: "halted" };
    const text = "1 node has problems. 1 node has little head-room.";
    expect(clusterHealth({ nodes: [busy, halted] })).toEqual({ healthy: false, text });
  });
});

describe("the order of nodes", () => {
  it("has those with little head-room behind those with problems", () => {
    const of = (id: string, more: Partial<NodeFacts>) => ({ ...node(room()), id, ...more });
    const busy = of("busy", { head_room: room({ small: ["CPU"] }) });
    const nodes = [of("a", {}), of("queried", {}), busy, of("halted", { state: "halted" })];
    const order = inOrder({ nodes, queried_node: "queried" }).map(({ id }) => id);
    expect(order).toEqual(["halted", "busy", "queried", "a"]);
  });
});

describe("an estimated time", () => {
  it.each([
    [5, "less than a minute"],
    [60, "1 minute"],
    [7_199, "119 minutes"],
    [7_200, "2 hours"],
    [172_799, "47 hours"],
    [172_800, "2 days"],
    [729.9 * 86_400, "729 days"],
    [1e12, "over two years"],
  ])("of %s seconds", (seconds, want) => {
    expect(about(seconds)).toBe(want);
  });
});
