import { describe, expect, it } from "vitest";
import { compared, hindrance, shortfall } from "../src/nodes/copies.ts";
import { overall } from "../src/nodes/health.ts";
import type { ClusterFacts, CopiesFacts, NodeFacts, RepairFacts } from "../src/state/cluster.ts";

const node = (repair?: Partial<RepairFacts>): NodeFacts => ({
  id: "n",
  addresses: {},
  roles: ["store"],
  state: "ready",
  member: "alive",
  queue: { segments: 0, pending_bytes: 0 },
  store: { stored_bytes: 0, oldest: null, newest: null },
  disk_free_bytes: 1,
  ...(repair === undefined ? {} : { repair: { walked: null, missing_records: 0, ...repair } }),
});
const cluster = (copies: Partial<CopiesFacts>, nodes: NodeFacts[] = [node()]): ClusterFacts => ({
  nodes,
  asked: "n",
  replication_factor: 2,
  stores_alive: 3,
  stores_missing: 0,
  copies: { kept: false, short_bytes: 0, missing_records: 0, lost_stores: 0, ...copies },
});

describe("what is kept too few times", () => {
  it.each<[Partial<CopiesFacts>, string[]]>([
    [{ kept: true }, []],
    [{ kept: true, progress: 0.5, bytes_per_second: 1_000, left_seconds: 60 }, []],
    [
      { short_bytes: 8e9, progress: 0.43, bytes_per_second: 30e6, left_seconds: 1_200 },
      ["About 8.0 GB are kept by fewer than 2 stores: 43% looked through at 30.0 MB/s, about 20 min left."],
    ],
    [
      { short_bytes: 1_000, progress: 0, bytes_per_second: 0, left_seconds: null },
      ["About 1.0 kB are kept by fewer than 2 stores: restoring begins when a store has been gone for a minute."],
    ],
    [
      { short_bytes: 1_000, progress: 0.2, bytes_per_second: 0, left_seconds: null },
      ["About 1.0 kB are kept by fewer than 2 stores: 20% looked through."],
    ],
    [
      { short_bytes: 7, missing_records: 1, lost_stores: 2 },
      [
        "2 stores are lost at once, and there are 2 copies of each record: some records may be nowhere until one is back. " +
          "Those that are gone for good are to be forgotten: bucksaw forget.",
        "About 7 B are kept by fewer than 2 stores.",
      ],
    ],
  ])("%j", (given, want) => expect(shortfall(cluster(given))).toEqual(want));

  it("is not told of by a node of another version", () =>
    expect(overall({ nodes: [node()], replication_factor: 2, stores_alive: 3 }).well).toBe(true));

  it("stands beside who needs to be looked at", () => {
    const short = { short_bytes: 1_000, progress: 0.2, bytes_per_second: 0, left_seconds: null };
    const said = "About 1.0 kB are kept by fewer than 2 stores: 20% looked through.";
    expect(overall(cluster(short))).toEqual({ well: false, text: said });
    const stuck = cluster(short, [node({ hindered_by: "no_room" })]);
    expect(overall(stuck)).toEqual({ well: false, text: `1 node needs to be looked at. ${said}` });
  });
});

it.each<[string, string | undefined]>([
  ["silent", "It cannot look for missing copies: the store s does not tell what it has."],
  ["no_room", "It cannot restore copies: no other store has room for them."],
  ["awaited", undefined],
  ["of a later version", undefined],
])("what stops a store: %s", (why, want) =>
  expect(hindrance(node({ hindered_by: why, hindered_by_store: "s" }))).toBe(want),
);

it.each<[Partial<RepairFacts> | undefined, string | undefined]>([
  [undefined, undefined],
  [{}, "Its records have not been compared with other stores since it started."],
  [{ walked: "T" }, "Its records were compared with other stores at <T>: nothing is missing."],
  [
    { walked: "T", missing_records: 2 },
    "Its records were compared with other stores at <T>: 2 records have too few copies.",
  ],
  [
    { progress: 0.431, bytes_per_second: 2e6, left_seconds: 90 },
    "Comparing its records with other stores: 43% at 2.0 MB/s, about 1 min left.",
  ],
  [{ progress: 0, bytes_per_second: 0, left_seconds: null }, "Comparing its records with other stores: 0% at 0 B/s."],
])("how a store gets on: %j", (given, want) => expect(compared(node(given), (time) => `<${time}>`)).toBe(want));
