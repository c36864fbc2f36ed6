import { isZone, localZone } from "../lib/zones.ts";
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

const KEY = "bucksaw";
const HISTORY_MAX = 100;
const SAVED_MAX = 200;
const WIDTHS_MAX = 200;

const DEFAULTS: Preferences = {
  theme: "system",
  zone: "",
  fields: true,
  folded: false,
  logarithmic: false,
  widths: {},
  history: [],
  saved: [],
};

/** The preferences in a stored text, whatever wrote it. */
export function parsed(text: string | null): Preferences {
  try {
    const said = JSON.parse(text ?? "{}") as Partial<Record<keyof Preferences, unknown>>;
    const texts = (list: unknown) => (Array.isArray(list) ? list.filter((item) => typeof item === "string") : []);
    const saved = (Array.isArray(said.saved) ? said.saved : []).filter(
      // Accept only URLs of this page.
      (item) =>
        typeof item?.name === "string" && typeof item.address === "string" && /^\/(\?|nodes|$)/.test(item.address),
    );
    const widths = Object.entries(said.widths ?? {}).filter(([, width]) => typeof width === "number");
    const { theme, zone } = said;
    return {
      theme: theme === "light" || theme === "dark" ? theme : "system",
      zone: typeof zone === "string" && (zone === "" || isZone(zone)) ? zone : "",
      fields: said.fields !== false,
      folded: said.folded === true,
      logarithmic: said.logarithmic === true,
      widths: Object.fromEntries(widths.slice(-WIDTHS_MAX)),
      history: texts(said.history).slice(0, HISTORY_MAX),
      saved: saved.slice(0, SAVED_MAX),
    };
  } catch {
    return DEFAULTS;
  }
}

function load(): Preferences {
  try {
    return parsed(localStorage.getItem(KEY));
  } catch {
    return DEFAULTS;
  }
}

const preferences = new Store<Preferences>(load());

function apply() {
  const { theme } = preferences.value;
  shown.zone = zoneOf(preferences.value);
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}
apply();

// Another tab has changed them.
addEventListener("storage", (event) => {
  if (event.key !== null && event.key !== KEY) return;
  preferences.change(parsed(event.newValue));
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

/** Changes what is stored at this moment, which another tab may have written, and not what this tab has read before. */
function update(change: (stored: Preferences) => Partial<Preferences>) {
  let stored = preferences.value;
  try {
    const text = localStorage.getItem(KEY);
    if (text !== null) stored = parsed(text);
  } catch {
    // The browser may forbid storage: the preferences last as long as this page.
  }
  const next = { ...stored, ...change(stored) };
  preferences.change(next);
  apply();
  try {
    localStorage.setItem(KEY, JSON.stringify(next));
  } catch {
    // As above, or the storage is full.
  }
}

export function prefer(change: Partial<Omit<Preferences, "history" | "saved" | "widths">>) {
  update(() => change);
}

export function remember(query: string) {
  const trimmed = query.trim();
  if (trimmed === "" || preferences.value.history[0] === trimmed) return;
  update(({ history }) => ({
    history: [trimmed, ...history.filter((past) => past !== trimmed)].slice(0, HISTORY_MAX),
  }));
}

export function save(name: string, address: string) {
  update(({ saved }) => ({
    saved: [{ name, address }, ...saved.filter((other) => other.name !== name)].slice(0, SAVED_MAX),
  }));
}

export function forget(name: string) {
  update(({ saved }) => ({ saved: saved.filter((other) => other.name !== name) }));
}

/** Sets the width of a column. */
export function setWidth(name: string, width: number) {
  update(({ widths: { [name]: _, ...others } }) => ({ widths: { ...others, [name]: Math.round(width) } }));
}
