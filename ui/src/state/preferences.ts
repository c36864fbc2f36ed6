import { Store, useStore } from "./store.ts";

/** Preferences and searches stored in this browser. */
export interface Preferences {
  theme: "system" | "light" | "dark";
  utc: boolean;
  /** Whether the fields panel is open; `undefined` until the user decides. */
  fields: boolean | undefined;
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

const DEFAULTS: Preferences = { theme: "system", utc: false, fields: undefined, history: [], saved: [] };

function load(): Preferences {
  try {
    const said = JSON.parse(localStorage.getItem(KEY) ?? "{}") as Partial<Preferences>;
    const texts = (list: unknown) => (Array.isArray(list) ? list.filter((item) => typeof item === "string") : []);
    const saved = (Array.isArray(said.saved) ? said.saved : []).filter(
      // Accept only URLs of this page, whatever wrote them.
      (item) =>
        typeof item?.name === "string" && typeof item.address === "string" && /^\/(\?|nodes|$)/.test(item.address),
    );
    return { ...DEFAULTS, ...said, history: texts(said.history), saved };
  } catch {
    return DEFAULTS;
  }
}

const preferences = new Store<Preferences>(load());

function apply() {
  const { theme } = preferences.value;
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}
apply();

export function usePreferences(): Preferences {
  return useStore(preferences);
}

export function prefer(change: Partial<Preferences>) {
  preferences.change(change);
  apply();
  try {
    localStorage.setItem(KEY, JSON.stringify(preferences.value));
  } catch {
    // The browser may forbid storage.
  }
}

export function remember(query: string) {
  const trimmed = query.trim();
  const { history } = preferences.value;
  if (trimmed === "" || history[0] === trimmed) return;
  prefer({ history: [trimmed, ...history.filter((past) => past !== trimmed)].slice(0, HISTORY_MAX) });
}

export function save(name: string, address: string) {
  const others = preferences.value.saved.filter((saved) => saved.name !== name);
  prefer({ saved: [{ name, address }, ...others].slice(0, SAVED_MAX) });
}

export function forget(name: string) {
  prefer({ saved: preferences.value.saved.filter((saved) => saved.name !== name) });
}
