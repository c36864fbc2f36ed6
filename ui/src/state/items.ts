/** What the page stores in the browser, as items of `localStorage` by key; keys of others are not among them. */
export type Items = ReadonlyMap<string, string>;

/** The members of a list: searches and widths of columns. */
export type List = "recent" | "saved" | "width";

/** How many members of a list are kept: the latest. */
const MAX: Readonly<Record<List, number>> = { recent: 100, saved: 200, width: 200 };

/** A member of a list, with when it was stored last. */
export interface Member {
  name: string;
  at: number;
  value: unknown;
}

const PREFIX = "bucksaw.";

const keyOf = (list: List, name: string) => `${PREFIX}${list}.${name}`;

/** The value of a setting; undefined if there is none that is readable. */
export function setting(items: Items, name: string): unknown {
  return read(items.get(PREFIX + name));
}

/** The readable members of a list, latest first. */
export function members(items: Items, list: List): Member[] {
  const prefix = keyOf(list, "");
  const found: Member[] = [];
  for (const [key, text] of items) {
    if (!key.startsWith(prefix)) continue;
    const { at, value } = (read(text) ?? {}) as Partial<Member>;
    if (typeof at === "number" && Number.isFinite(at)) found.push({ name: key.slice(prefix.length), at, value });
  }
  return found.sort((a, b) => b.at - a.at || (a.name < b.name ? -1 : 1)).slice(0, MAX[list]);
}

/** Items to write, and keys to remove, which have no text. */
export type Changes = ReadonlyMap<string, string | undefined>;

/** Sets settings. */
export function setSettings(settings: Readonly<Record<string, unknown>>): Changes {
  return new Map(Object.entries(settings).map(([name, value]) => [PREFIX + name, JSON.stringify(value)]));
}

/** Makes a member the latest of its list, and removes the oldest if there are too many. */
export function setMember(items: Items, list: List, name: string, value: unknown, now: number): Changes {
  const others = members(items, list).filter((member) => member.name !== name);
  // A clock that was set back must not make the new member an old one.
  const at = Math.max(now, (others[0]?.at ?? 0) + 1);
  const changes = new Map<string, string | undefined>([[keyOf(list, name), JSON.stringify({ at, value })]]);
  const kept = new Set(others.slice(0, MAX[list] - 1).map((member) => keyOf(list, member.name)));
  for (const key of items.keys()) {
    if (key.startsWith(keyOf(list, "")) && !kept.has(key) && !changes.has(key)) changes.set(key, undefined);
  }
  return changes;
}

/** Removes a member of a list. */
export function removeMember(list: List, name: string): Changes {
  return new Map([[keyOf(list, name), undefined]]);
}

/** The items after some changes. */
export function changed(items: Items, changes: Changes): Items {
  const next = new Map(items);
  for (const [key, text] of changes) {
    if (text === undefined) next.delete(key);
    else next.set(key, text);
  }
  return next;
}

/** The page's items among all of a storage. */
export function ownItems(storage: Storage): Items {
  return new Map(Object.entries(storage).filter(([key]) => key.startsWith(PREFIX)));
}

function read(text: string | undefined): unknown {
  try {
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}
