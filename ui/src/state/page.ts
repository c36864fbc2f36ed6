import { type PageState, readState, writeState } from "../lib/url.ts";
import { Store, useStore } from "./store.ts";

/** The state of the page, which its URL holds. */
const page = new Store<PageState>(readState(location.pathname, location.search));

addEventListener("popstate", () => page.change(readState(location.pathname, location.search)));

export function usePage(): PageState {
  return useStore(page);
}

export function pageState(): PageState {
  return page.value;
}

/** Changes the state and the URL. `replace` adds no history entry, for changes at every key press. */
export function go(change: Partial<PageState>, how: "push" | "replace" = "push") {
  const next = { ...page.value, ...change };
  const address = writeState(next);
  if (address !== location.pathname + location.search) {
    if (how === "push") history.pushState(null, "", address);
    else history.replaceState(null, "", address);
  }
  page.change(change);
}
