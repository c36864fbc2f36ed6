import { describe, expect, it } from "vitest";
import {
  acceptedRisk,
  clusterHealth,
  damage,
  inOrder,
  nodeState,
  pageOf,
  problems,
  reReplicatedDamage,
} from "../src/nodes/health.ts";
import { nodeNames } from "../src/nodes/names.ts";
import {
  type ClusterFacts,
  isEmpty,
  type KafkaFacts,
  type NodeFacts,
  queriedNode,
  type TopicFacts,
} from "../src/state/cluster.ts";

const node = (id: string, more: Partial<NodeFacts> = {}): NodeFacts => ({
  id,
  addresses: { http: `${id}:7650` },
  roles: ["ingest", "store"],
  state: "ready",
  membership: "alive",
  queue: { segments: 0, pending_bytes: 0, oldest_pending_seconds: 0 },
  store: { records: 0, stored_bytes: 0, oldest: null, newest: null },
  disk_free_bytes: 1,
  damaged: [],
  segments_with_damaged_blocks: 0,
  ...more,
});
const sink = {
  address: "c",
  failure: null,
  failing_since: null,
  waiting_inserts: 0,
  waiting_bytes: 0,
  waiting_seconds: 0,
};
const usage = { key: "b585208aaaf4bee7", segments: 1, bytes: 9, writing: false, named: true };
const topic: TopicFacts = { topic: "orders", partitions: 4, lag: 5_000, behind_seconds: 90, undecoded: 0 };
const kafka: KafkaFacts = {
  brokers: "b:1",
  group: "g",
  workers: 1,
  connected_workers: 1,
  disconnected_since: null,
  refusal: null,
  last_failure: null,
  last_failure_at: null,
  partitions: 4,
  lag: 7,
  behind_seconds: 30,
  undecoded: 0,
  topics: [],
  topics_left_out: 0,
};
const cluster = (nodes: NodeFacts[], more: Partial<ClusterFacts> = {}): ClusterFacts => ({
  nodes,
  queried_node: nodes[0]?.id ?? "",
  replication_factor: 2,
  stores_alive: 3,
  stores_missing: 0,
  ...more,
});
const down = node("d", { membership: "down", state: "down", since: "T" });
const left = node("a", { membership: "left", state: "left", since: "T" });

describe("the health of a cluster", () => {
  it.each<[string, ClusterFacts, string]>([
    ["all nodes are healthy", cluster([node("n")]), "All is well: replication factor 2, 3 stores alive."],
    ["a node left", cluster([node("n"), left]), "All is well: replication factor 2, 3 stores alive."],
    ["one is down", cluster([node("n"), down]), "1 node has problems."],
    [
      "two nodes have problems",
      cluster([node("n", { damaged: ["x"] }), node("m", { state: "unresponsive" })]),
      "2 nodes have problems.",
    ],
    [
      "one store is missing",
      cluster([node("n"), down], { stores_alive: 1, stores_missing: 1 }),
      "1 of 2 stores is alive: nothing is gathered until 1 more joins. Records stay in their queues and are found there.",
    ],
    [
      "two stores are missing",
      cluster([node("n")], { replication_factor: 4, stores_alive: 2, stores_missing: 2 }),
      "2 of 4 stores are alive: nothing is gathered until 2 more join. Records stay in their queues and are found there.",
    ],
    [
      "a node is of another version",
      cluster([node("n")], { protocol: "1.1", incompatible_peers: [{ address: "h:3", protocol: 2 }] }),
      "The node at h:3 has protocol version 2, this node 1.1: it cannot join.",
    ],
  ])("when %s", (_, given, want) =>
    expect(clusterHealth(given)).toEqual({ healthy: want.startsWith("All is well"), text: want }),
  );

  it("is known without a cluster", () => {
    const { membership: _, ...alone } = node("n");
    expect(clusterHealth({ nodes: [alone] }).healthy).toBe(true);
    expect(nodeState(alone)).toBe("ready");
    expect(queriedNode({ nodes: [alone] })?.id).toBe("n");
  });
});

describe("the problems of a node", () => {
  it.each<[Partial<NodeFacts>, string[]]>([
    [{}, []],
    [
      { membership: "down", state: "down", since: "T" },
      ["It has been down since <T>: records that only it holds are missing from answers."],
    ],
    [
      { membership: "down", state: "down", roles: ["store"], re_replicated: true },
      ["It has been down: its records are re-replicated; “bucksaw forget” removes it from the list."],
    ],
    [
      { membership: "down", state: "down", re_replicated: true },
      [
        "It has been down: its stored records are re-replicated, records in its queue are missing from answers; “bucksaw forget” removes it from the list.",
      ],
    ],
    [{ membership: "suspect", since: "T" }, ["It has not answered since <T> and will soon be marked down."]],
    [{ membership: "left", state: "left" }, []],
    [{ state: "unresponsive" }, ["It is alive but does not report its status: it is slow or was paused."]],
    [
      { damaged_keys: 3 },
      ["It could not read 3 idempotency keys: a retry of such a batch may be stored as new records."],
    ],
    [{ encryption: { keys: [usage], segments_without_key: [] } }, []],
    [
      { encryption: { keys: [usage, { ...usage, segments: 2, named: false }], segments_without_key: [] } },
      [
        "It has 2 segments encrypted with key b585208aaaf4bee7, which is not among its keys: add it to them again, or they cannot be read after a restart.",
      ],
    ],
    [
      { encryption: { keys: [{ ...usage, named: false }], segments_without_key: ["store/x.seg"] } },
      [
        "It has 1 segment encrypted with key b585208aaaf4bee7, which is not among its keys: add it to them again.",
        "It cannot read 1 segment for want of a key: answers over their time are partial.",
      ],
    ],
    [{ state: "disk full" }, ["It accepts nothing: its disk is full."]],
    [{ state: "halted", halted: "no descriptor is left" }, ["It accepts nothing: no descriptor is left."]],
    [
      { state: "stopping", duplicate_address: "h:1" },
      ["It is stopping.", "The node at h:1 has the same id: a data directory was copied. Stop one of them."],
    ],
    [{ version_skew: "speaks version 1.9" }, ["It speaks version 1.9."]],
    [
      { retention_suspended: { clock_ahead_seconds: 691_200, remaining_seconds: 3_600 } },
      [
        "It removes nothing by age: its clock is 8 d 0 h ahead, as after a long stop or a jump. Set it right if it is wrong, or retention resumes in 1 h 0 min.",
      ],
    ],
    [{ database: { address: "c", failure: null, failing_since: null } }, []],
    [
      {
        database: { address: "c", failure: "no answer", failing_since: "T" },
        sink: { ...sink, failure: "no way" },
      },
      ["It keeps records in its queue since <T>: no answer.", "It has 0 B on disk for ClickHouse: no way."],
    ],
    [{ sink: { ...sink, waiting_seconds: 29 } }, []],
    [
      { sink: { ...sink, waiting_bytes: 5_000, waiting_seconds: 90 } },
      ["It has 5.0 kB on disk for ClickHouse, the oldest for 1 min: ClickHouse is slow."],
    ],
    [{ kafka }, []],
    [
      { kafka: { ...kafka, disconnected_since: "T", last_failure: "refused" } },
      ["It has had no connection to Kafka since <T>: refused."],
    ],
    [
      { kafka: { ...kafka, refusal: "disk full" } },
      ["It reads nothing from Kafka, as its queue refuses records: disk full."],
    ],
    [
      { kafka: { ...kafka, lag: 5_000, behind_seconds: 90, topics: [topic] } },
      ["It is 1 min behind Kafka: 5,000 messages are not stored, most of topic orders."],
    ],
    [{ queue: { pending_bytes: 1, oldest_pending_seconds: 29 } }, []],
    [{ queue: { pending_bytes: 1, oldest_pending_seconds: 90 } }, ["It has records that have been pending for 1 min."]],
  ])("%j", (given, want) => expect(problems(node("n", given), (time) => `<${time}>`)).toEqual(want));

  it("includes a state in one word", () => {
    const words = [
      {},
      { state: "unresponsive" },
      { membership: "suspect" as const },
      { membership: "down" as const, state: "down" },
    ];
    expect(words.map((given) => nodeState(node("n", given)))).toEqual(["ready", "unresponsive", "suspect", "down"]);
    expect(damage(node("n", { damaged: ["x"], segments_with_damaged_blocks: 2 }))).toBe(3);
    expect(reReplicatedDamage(node("n"))).toBeUndefined();
    expect([acceptedRisk(node("n")), acceptedRisk(node("n", { insecure_listeners: ["fast", "http"] }))]).toEqual([
      undefined,
      "It lets other machines connect without authentication or encryption: fast, http.",
    ]);
    expect(reReplicatedDamage(node("n", { damaged_re_replicated: ["x"], segments_re_replicated: ["y", "z"] }))).toBe(
      "Its answers are complete: other stores have all records of 1 damaged file, which may be deleted; and all records of the damaged blocks of 2 segments, not to be deleted: “bucksaw verify --repair” saves their intact blocks.",
    );
  });
});

it("nodes with problems come first, then the queried node, and nodes that left last", () => {
  const damaged = node("e", { damaged: ["x"] });
  const given = cluster([left, node("b"), node("c"), down, damaged], { queried_node: "c" });
  expect(inOrder(given).map(({ id }) => id)).toEqual(["d", "e", "c", "b", "a"]);
  expect(queriedNode(given)?.id).toBe("c");
});

it("the page of a node is at its HTTP address, unless that is a wildcard", () => {
  const at = (http?: string) => pageOf(node("n", { addresses: http === undefined ? {} : { http } }));
  expect([at("10.0.0.1:7650"), at("[::1]:7650"), at("0.0.0.0:7650"), at("[::]:1"), at()]).toEqual([
    "http://10.0.0.1:7650/nodes",
    "http://[::1]:7650/nodes",
    undefined,
    undefined,
    undefined,
  ]);
});

it("a cluster is empty when no node has a record", () => {
  const down = node("d", {
    membership: "down",
    queue: { pending_bytes: 0 },
    store: { stored_bytes: 5, oldest: null, newest: null },
  });
  expect(isEmpty(cluster([node("n"), node("m")]))).toBe(true);
  expect(isEmpty(cluster([node("n"), down]))).toBe(false);
  expect(isEmpty(cluster([node("n", { queue: { segments: 1, pending_bytes: 0 } })]))).toBe(false);
});

it("nodes have the names of their hosts, with the port where it is needed", () => {
  const at = (id: string, http: string, more: Partial<NodeFacts> = {}) => node(id, { addresses: { http }, ...more });
  const names = (nodes: NodeFacts[]) => [...nodeNames(nodes).values()];
  expect(names([at("a", "10.0.0.1:7650"), at("b", "10.0.0.2:7650")])).toEqual(["10.0.0.1", "10.0.0.2"]);
  expect(names([at("a", "127.0.0.1:1"), at("b", "127.0.0.1:2")])).toEqual(["127.0.0.1:1", "127.0.0.1:2"]);
  expect(names([at("a", "0.0.0.0:1", { addresses: { http: "0.0.0.0:1", cluster: "web-1:7659" } })])).toEqual(["web-1"]);
  expect(names([at("a", "h:1", { host: "one" }), node("z", { addresses: {} })])).toEqual(["one", "z"]);
  expect(names([at("a", "h:1", { host: "one" }), at("b", "h:2", { host: "one" })])).toEqual(["one:1", "one:2"]);
  expect(names([at("a", "x:1", { host: "one" }), at("b", "y:1", { host: "one" })])).toEqual(["one x:1", "one y:1"]);
});
