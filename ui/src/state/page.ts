import { type PageState, readState, writeState } from "../lib/url.ts";
import { Store, useStore } from "./store.ts";

/** The state of the page, which its URL holds. */
const page = new Store<PageState>(readState(location.pathname, location.search));

/** The history entry that a search creates while it is typed. */
interface Entry {
  typing?: true;
}

/** `typing` is true from the first key press of a search until the search is settled. */
export const visit = new Store({ typing: false });

addEventListener("popstate", () => {
  settleTyping();
  page.change(readState(location.pathname, location.search));
});

export function usePage(): PageState {
  return useStore(page);
}

export function pageState(): PageState {
  return page.value;
}

/**
 * Changes the state and the URL. `push` adds a history entry, `replace` does not. `typing` adds one for a search at its first
 * key press and replaces it at the others, so that Back returns to the search before.
 */
export function go(change: Partial<PageState>, how: "push" | "replace" | "typing" = "push") {
  const next = { ...page.value, ...change };
  const address = writeState(next);
  const entry = history.state as Entry | null;
  if (address !== location.pathname + location.search) {
    if (how === "typing") {
      const typing: Entry = { typing: true };
      if (entry?.typing === true) history.replaceState(typing, "", address);
      else history.pushState(typing, "", address);
    } else if (how === "push") history.pushState(null, "", address);
    else history.replaceState(entry, "", address);
  }
  if (how !== "replace") visit.change({ typing: how === "typing" });
  page.change(change);
}

/** Ends the typing of a search: the next key press begins another history entry. */
export function settleTyping() {
  if ((history.state as Entry | null)?.typing === true) history.replaceState(null, "", location.href);
  if (visit.value.typing) visit.change({ typing: false });
}
