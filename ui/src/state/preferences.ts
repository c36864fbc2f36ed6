import { isZone, localZone } from "../lib/zones.ts";
import {
  type Changes,
  changed,
  type Items,
  members,
  ownItems,
  removeMember,
  setMember,
  setSettings,
  setting,
} from "./items.ts";
import { Store, useStore } from "./store.ts";
import { shown } from "./zone.ts";

/** Preferences and searches stored in this browser. */
export interface Preferences {
  theme: "system" | "light" | "dark";
  /** The zone of shown times: `UTC`, a name such as `Europe/Berlin`, or empty for that of this browser. */
  zone: string;
  /** Whether the fields panel is open beside the list. On a narrow screen it covers the list and starts closed. */
  fields: boolean;
  /** Whether the histogram is folded, and whether its axis is logarithmic. */
  folded: boolean;
  logarithmic: boolean;
  /** The widths of columns in pixels, by name. */
  widths: Readonly<Record<string, number>>;
  /** Recent searches, latest first. */
  history: readonly string[];
  saved: readonly Saved[];
}

export interface Saved {
  name: string;
  /** A URL of the page. */
  address: string;
}

/** The preferences in stored items, whatever wrote them. */
export function preferencesOf(items: Items): Preferences {
  const theme = setting(items, "theme");
  const zone = setting(items, "zone");
  const saved = members(items, "saved").flatMap(({ name, value: address }) =>
    // Accept only URLs of this page.
    typeof address === "string" && /^\/(\?|nodes|$)/.test(address) ? [{ name, address }] : [],
  );
  const widths = members(items, "width").filter(({ value }) => typeof value === "number");
  return {
    theme: theme === "light" || theme === "dark" ? theme : "system",
    zone: typeof zone === "string" && (zone === "" || isZone(zone)) ? zone : "",
    fields: setting(items, "fields") !== false,
    folded: setting(items, "folded") === true,
    logarithmic: setting(items, "logarithmic") === true,
    widths: Object.fromEntries(widths.map(({ name, value }) => [name, value as number])),
    history: members(items, "recent").map(({ name }) => name),
    saved,
  };
}

let items: Items = new Map();

/** Reads what is stored. Where the browser forbids storage, items last as long as this page. */
function load() {
  try {
    items = ownItems(localStorage);
  } catch {
    // Forbidden.
  }
}

load();
const preferences = new Store<Preferences>(preferencesOf(items));

function apply() {
  const { theme } = preferences.value;
  shown.zone = zoneOf(preferences.value);
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}
apply();

// Another tab has changed them.
addEventListener("storage", () => {
  load();
  preferences.change(preferencesOf(items));
  apply();
});

export function usePreferences(): Preferences {
  return useStore(preferences);
}

/** The zone of shown times. */
export function useZone(): string {
  return zoneOf(usePreferences());
}

function zoneOf({ zone }: Preferences): string {
  return zone === "" ? localZone() : zone;
}

/**
 * Stores changes of what is stored at this moment. Each setting and each member of a list is an item of its own, since
 * browsers report an item to tabs of other processes later: one item with everything would undo what another tab wrote.
 */
function update(changes: (stored: Items) => Changes) {
  load();
  const written = changes(items);
  items = changed(items, written);
  preferences.change(preferencesOf(items));
  apply();
  try {
    for (const [key, text] of written) {
      if (text === undefined) localStorage.removeItem(key);
      else localStorage.setItem(key, text);
    }
  } catch {
    // The browser forbids storage, or it is full.
  }
}

export function prefer(change: Partial<Omit<Preferences, "history" | "saved" | "widths">>) {
  update(() => setSettings(change));
}

export function remember(query: string) {
  const trimmed = query.trim();
  if (trimmed === "" || preferences.value.history[0] === trimmed) return;
  update((stored) => setMember(stored, "recent", trimmed, undefined, Date.now()));
}

export function save(name: string, address: string) {
  update((stored) => setMember(stored, "saved", name, address, Date.now()));
}

export function forget(name: string) {
  update(() => removeMember("saved", name));
}

/** Sets the width of a column. */
export function setWidth(name: string, width: number) {
  update((stored) => setMember(stored, "width", name, Math.round(width), Date.now()));
}
