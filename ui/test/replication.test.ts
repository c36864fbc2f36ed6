import { describe, expect, it } from "vitest";
import { clusterHealth } from "../src/nodes/health.ts";
import { repairBlocker, repairProgress, underReplication } from "../src/nodes/replication.ts";
import type { ClusterFacts, NodeFacts, RepairFacts, ReplicationFacts } from "../src/state/cluster.ts";

const node = (repair?: Partial<RepairFacts>): NodeFacts => ({
  id: "n",
  addresses: {},
  roles: ["store"],
  state: "ready",
  membership: "alive",
  queue: { segments: 0, pending_bytes: 0 },
  store: { stored_bytes: 0, oldest: null, newest: null },
  disk_free_bytes: 1,
  ...(repair === undefined ? {} : { repair: { last_pass: null, under_replicated_records: 0, ...repair } }),
});
const cluster = (replication: Partial<ReplicationFacts>, nodes: NodeFacts[] = [node()]): ClusterFacts => ({
  nodes,
  queried_node: "n",
  replication_factor: 2,
  stores_alive: 3,
  stores_missing: 0,
  replication: {
    fully_replicated: false,
    under_replicated_bytes: 0,
    under_replicated_records: 0,
    lost_stores: 0,
    ...replication,
  },
});

describe("under-replicated records", () => {
  it.each<[Partial<ReplicationFacts>, string[]]>([
    [{ fully_replicated: true }, []],
    [{ fully_replicated: true, progress: 0.5, bytes_per_second: 1_000, remaining_seconds: 60 }, []],
    [
      { under_replicated_bytes: 8e9, progress: 0.43, bytes_per_second: 30e6, remaining_seconds: 1_200 },
      ["About 8.0 GB are on fewer than 2 stores: 43% compared at 30.0 MB/s, about 20 min left."],
    ],
    [
      { under_replicated_bytes: 1_000, progress: 0, bytes_per_second: 0, remaining_seconds: null },
      ["About 1.0 kB are on fewer than 2 stores: repair starts when a store has been down for a minute."],
    ],
    [
      { under_replicated_bytes: 1_000, progress: 0.2, bytes_per_second: 0, remaining_seconds: null },
      ["About 1.0 kB are on fewer than 2 stores: 20% compared."],
    ],
    [
      { under_replicated_bytes: 7, under_replicated_records: 1, lost_stores: 2 },
      [
        "2 stores are lost at the same time and the replication factor is 2: some records may have no copy until one " +
          "returns. Forget those that will not return: bucksaw forget.",
        "About 7 B are on fewer than 2 stores.",
      ],
    ],
  ])("%j", (given, want) => expect(underReplication(cluster(given))).toEqual(want));

  it("are not reported by a node of another version", () =>
    expect(clusterHealth({ nodes: [node()], replication_factor: 2, stores_alive: 3 }).healthy).toBe(true));

  it("are reported beside nodes with problems", () => {
    const replication = { under_replicated_bytes: 1_000, progress: 0.2, bytes_per_second: 0, remaining_seconds: null };
    const text = "About 1.0 kB are on fewer than 2 stores: 20% compared.";
    expect(clusterHealth(cluster(replication))).toEqual({ healthy: false, text });
    const stuck = cluster(replication, [node({ blocked_by: "no_space" })]);
    expect(clusterHealth(stuck)).toEqual({ healthy: false, text: `1 node has problems. ${text}` });
  });
});

it.each<[string, string | undefined]>([
  ["unreachable", "It cannot compare its records: the store s does not answer."],
  ["no_space", "It cannot re-replicate: no other store has space."],
  ["awaited", undefined],
  ["added in a later version", undefined],
])("a repair blocker: %s", (reason, want) =>
  expect(repairBlocker(node({ blocked_by: reason, blocked_by_store: "s" }))).toBe(want),
);

it.each<[Partial<RepairFacts> | undefined, string | undefined]>([
  [undefined, undefined],
  [{}, "Its records have not been compared with other stores since it started."],
  [{ last_pass: "T" }, "Its records were compared with other stores at <T>: all are fully replicated."],
  [
    { last_pass: "T", under_replicated_records: 2 },
    "Its records were compared with other stores at <T>: 2 records have too few copies.",
  ],
  [
    { progress: 0.431, bytes_per_second: 2e6, remaining_seconds: 90 },
    "Comparing its records with other stores: 43% at 2.0 MB/s, about 1 min left.",
  ],
  [
    { progress: 0, bytes_per_second: 0, remaining_seconds: null },
    "Comparing its records with other stores: 0% at 0 B/s.",
  ],
])("repair progress: %j", (given, want) => expect(repairProgress(node(given), (time) => `<${time}>`)).toBe(want));
