import type { NodeFacts } from "../state/cluster.ts";

const WILDCARD = /^(0\.0\.0\.0|\[::\]):/;

/** The address by which people know a node: that of its page, or else that of its cluster. */
function addressOf({ addresses }: NodeFacts): string | undefined {
  return [addresses.http, addresses.cluster].find((address) => address !== undefined && !WILDCARD.test(address));
}

/** The names of nodes by id: their own, or their hosts, with the port where one host has several nodes. */
export function nodeNames(nodes: readonly NodeFacts[]): ReadonlyMap<string, string> {
  const host = (node: NodeFacts) => addressOf(node)?.replace(/:\d+$/, "");
  const taken = new Map<string, number>();
  for (const node of nodes) {
    const name = node.name ?? host(node) ?? "";
    taken.set(name, (taken.get(name) ?? 0) + 1);
  }
  return new Map(
    nodes.map((node) => {
      const name = node.name ?? host(node);
      if (name === undefined) return [node.id, node.id];
      if ((taken.get(name) ?? 0) < 2) return [node.id, name];
      return [
        node.id,
        node.name === undefined ? (addressOf(node) ?? node.id) : `${name} ${addressOf(node) ?? node.id}`,
      ];
    }),
  );
}
