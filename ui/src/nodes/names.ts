import type { NodeFacts } from "../state/cluster.ts";

const WILDCARD = /^(0\.0\.0\.0|\[::\]):/;

/** The address by which people know a node: that of its page, or else that of its cluster. */
function addressOf({ addresses }: NodeFacts): string | undefined {
  return [addresses.http, addresses.cluster].find((address) => address !== undefined && !WILDCARD.test(address));
}

/** The names of nodes by id: the host; with its port, or else its address, where several nodes share the shorter name. */
export function nodeNames(nodes: readonly NodeFacts[]): ReadonlyMap<string, string> {
  const forms = nodes.map((node) => {
    const address = addressOf(node);
    const host = node.host ? node.host : address?.replace(/:\d+$/, "");
    if (host === undefined) return [node.id];
    const port = address?.match(/:\d+$/)?.[0];
    return [host, ...(port === undefined ? [] : [host + port]), `${host} ${address ?? node.id}`];
  });
  const taken = new Map<string, number>();
  for (const name of forms.flat()) taken.set(name, (taken.get(name) ?? 0) + 1);
  return new Map(
    nodes.map((node, at) => [
      node.id,
      forms[at]?.find((name) => taken.get(name) === 1) ?? forms[at]?.at(-1) ?? node.id,
    ]),
  );
}
