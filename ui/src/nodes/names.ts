import type { NodeFacts } from "../state/cluster.ts";

const WILDCARD = /^(0\.0\.0\.0|\[::\]):/;

/** The address by which people know a node: that of its page, or else that of its cluster. */
function addressOf({ addresses }: NodeFacts): string | undefined {
  return [addresses.http, addresses.cluster].find((address) => address !== undefined && !WILDCARD.test(address));
}

/** The names of nodes by id: their hosts, with the port where one host has several nodes. */
export function nodeNames(nodes: readonly NodeFacts[]): ReadonlyMap<string, string> {
  const hostOf = (node: NodeFacts) => (node.host ? node.host : addressOf(node)?.replace(/:\d+$/, ""));
  const taken = new Map<string, number>();
  for (const node of nodes) {
    const host = hostOf(node) ?? "";
    taken.set(host, (taken.get(host) ?? 0) + 1);
  }
  return new Map(
    nodes.map((node) => {
      const host = hostOf(node);
      if (host === undefined) return [node.id, node.id];
      if ((taken.get(host) ?? 0) < 2) return [node.id, host];
      const port = addressOf(node)?.match(/:\d+$/)?.[0];
      return [node.id, port === undefined ? `${host} ${node.id}` : host + port];
    }),
  );
}
