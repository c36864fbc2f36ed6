import { describe, expect, it } from "vitest";
import { damage, inOrder, madeGood, overall, pageOf, seen, troubles } from "../src/nodes/health.ts";
import { askedNode, type ClusterFacts, isEmpty, type NodeFacts } from "../src/state/cluster.ts";

const node = (id: string, more: Partial<NodeFacts> = {}): NodeFacts => ({
  id,
  addresses: { http: `${id}:7650` },
  roles: ["ingest", "store"],
  state: "ready",
  member: "alive",
  queue: { segments: 0, pending_bytes: 0, oldest_pending_seconds: 0 },
  store: { records: 0, stored_bytes: 0, oldest: null, newest: null },
  disk_free_bytes: 1,
  damaged: [],
  segments_with_damaged_blocks: 0,
  ...more,
});
const cluster = (nodes: NodeFacts[], more: Partial<ClusterFacts> = {}): ClusterFacts => ({
  nodes,
  asked: nodes[0]?.id ?? "",
  replication_factor: 2,
  stores_alive: 3,
  stores_missing: 0,
  ...more,
});
const down = node("d", { member: "down", state: "down", since: "T" });
const left = node("a", { member: "left", state: "left", since: "T" });

describe("the health of a cluster", () => {
  it.each<[string, ClusterFacts, string]>([
    ["all is well", cluster([node("n")]), "All is well: each record is kept by 2 of 3 stores."],
    ["somebody left", cluster([node("n"), left]), "All is well: each record is kept by 2 of 3 stores."],
    ["one is down", cluster([node("n"), down]), "1 node needs to be looked at."],
    [
      "two are not well",
      cluster([node("n", { damaged: ["x"] }), node("m", { state: "silent" })]),
      "2 nodes need to be looked at.",
    ],
    [
      "a copy is missing",
      cluster([node("n"), down], { stores_alive: 1, stores_missing: 1 }),
      "1 of 2 stores is there: nothing is gathered until 1 more comes. Records stay where they were taken in, and are found there.",
    ],
    [
      "two copies are missing",
      cluster([node("n")], { replication_factor: 4, stores_alive: 2, stores_missing: 2 }),
      "2 of 4 stores are there: nothing is gathered until 2 more come. Records stay where they were taken in, and are found there.",
    ],
    [
      "a node is of another version",
      cluster([node("n")], { protocol: "1.1", strangers: [{ address: "h:3", protocol: 2 }] }),
      "A node at h:3 speaks version 2 of what nodes say to each other, and this one 1.1: it is no member.",
    ],
  ])("when %s", (_, given, want) =>
    expect(overall(given)).toEqual({ well: want.startsWith("All is well"), text: want }),
  );

  it("is told of a node without a cluster", () => {
    const { member: _, ...alone } = node("n");
    expect(overall({ nodes: [alone] }).well).toBe(true);
    expect(seen(alone)).toBe("ready");
    expect(askedNode({ nodes: [alone] })?.id).toBe("n");
  });
});

describe("what is wrong with a node", () => {
  it.each<[Partial<NodeFacts>, string[]]>([
    [{}, []],
    [
      { member: "down", state: "down", since: "T" },
      ["It has been down since <T>: what it alone holds is missing from answers."],
    ],
    [
      { member: "down", state: "down", roles: ["store"], made_good: true },
      ["It has been down: its records are kept elsewhere; “bucksaw forget” takes it from the list."],
    ],
    [
      { member: "down", state: "down", made_good: true },
      [
        "It has been down: what it stored is kept elsewhere, what was in its queue is missing from answers; “bucksaw forget” takes it from the list.",
      ],
    ],
    [{ member: "suspect", since: "T" }, ["It has not answered since <T>, and counts as down in a moment."]],
    [{ member: "left", state: "left" }, []],
    [{ state: "silent" }, ["It is there, and does not tell how it is: it is slow, or was paused."]],
    [
      { damaged_keys: 3 },
      ["It could not read 3 entries of batch keys: a retry of such a batch may be stored as new records."],
    ],
    [{ state: "disk full" }, ["It accepts nothing: its disk is full."]],
    [{ state: "halted", halted: "no descriptor is left" }, ["It accepts nothing: no descriptor is left."]],
    [
      { state: "stopping", twin: "h:1" },
      ["It is stopping.", "The node at h:1 has the same id: a data directory was copied. Stop one of them."],
    ],
    [{ apart: "speaks version 1.9" }, ["It speaks version 1.9."]],
    [
      { retention_suspended_clock_ahead_seconds: 691_200, retention_suspended_left_seconds: 3_600 },
      ["It removes nothing by age: its clock jumped 8 d 0 h ahead. Set it right, or retention goes on in 1 h 0 min."],
    ],
    [{ queue: { pending_bytes: 1, oldest_pending_seconds: 29 } }, []],
    [{ queue: { pending_bytes: 1, oldest_pending_seconds: 90 } }, ["Records have waited for the stores for 1 min."]],
  ])("%j", (given, want) => expect(troubles(node("n", given), (time) => `<${time}>`)).toEqual(want));

  it("is told in a word", () => {
    const words = [{}, { state: "silent" }, { member: "suspect" as const }, { member: "down" as const, state: "down" }];
    expect(words.map((given) => seen(node("n", given)))).toEqual(["ready", "silent", "suspect", "down"]);
    expect(damage(node("n", { damaged: ["x"], segments_with_damaged_blocks: 2 }))).toBe(3);
    expect(madeGood(node("n"))).toBeUndefined();
    expect(madeGood(node("n", { damaged_made_good: ["x"], segments_made_good: ["y", "z"] }))).toBe(
      "Its answers are whole: other stores keep all records of 1 damaged file, which may be deleted; and all records of the damaged blocks of 2 segments, not to be deleted: “bucksaw verify --repair” saves what is sound of it.",
    );
  });
});

it("who is in trouble stands on top, then who was asked, and who left last", () => {
  const damaged = node("e", { damaged: ["x"] });
  const given = cluster([left, node("b"), node("c"), down, damaged], { asked: "c" });
  expect(inOrder(given).map(({ id }) => id)).toEqual(["d", "e", "c", "b", "a"]);
  expect(askedNode(given)?.id).toBe("c");
});

it("the pages of others are where they say, if they do", () => {
  const at = (http?: string) => pageOf(node("n", { addresses: http === undefined ? {} : { http } }));
  expect([at("10.0.0.1:7650"), at("[::1]:7650"), at("0.0.0.0:7650"), at("[::]:1"), at()]).toEqual([
    "http://10.0.0.1:7650/nodes",
    "http://[::1]:7650/nodes",
    undefined,
    undefined,
    undefined,
  ]);
});

it("a cluster is empty when nobody has anything", () => {
  const gone = node("d", {
    member: "down",
    queue: { pending_bytes: 0 },
    store: { stored_bytes: 5, oldest: null, newest: null },
  });
  expect(isEmpty(cluster([node("n"), node("m")]))).toBe(true);
  expect(isEmpty(cluster([node("n"), gone]))).toBe(false);
  expect(isEmpty(cluster([node("n", { queue: { segments: 1, pending_bytes: 0 } })]))).toBe(false);
});
