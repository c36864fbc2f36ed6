import { DEFAULT_RANGE, type Range } from "./ranges.ts";

/** Everything that a link can say. What is not said is as here in {@link DEFAULT_STATE}. */
export interface PageState {
  view: "explore" | "nodes";
  q: string;
  range: Range;
  order: "desc" | "asc";
  /** Names of fields that have columns. */
  columns: readonly string[];
  wrap: boolean;
  /** Whether new records are followed. */
  tail: boolean;
  /** The id of the record that is open. */
  record: string;
}

export const DEFAULT_STATE: PageState = {
  view: "explore",
  q: "",
  range: DEFAULT_RANGE,
  order: "desc",
  columns: [],
  wrap: false,
  tail: false,
  record: "",
};

/** The state that an address says. */
export function readState(path: string, search: string): PageState {
  const said = new URLSearchParams(search);
  const record = said.get("record") ?? "";
  return {
    view: path === "/nodes" ? "nodes" : "explore",
    q: said.get("q") ?? "",
    range: { from: said.get("from") ?? DEFAULT_RANGE.from, to: said.get("to") ?? "" },
    order: said.get("order") === "asc" ? "asc" : "desc",
    columns: [...new Set(said.getAll("column").filter((name) => name !== ""))],
    wrap: said.get("wrap") === "1",
    tail: said.get("tail") === "1",
    record: /^[0-9A-Za-z]{26}$/.test(record) ? record : "",
  };
}

/** The address that says a state. */
export function writeState(state: PageState): string {
  const said = new URLSearchParams();
  if (state.q !== "") said.set("q", state.q);
  if (state.range.from !== DEFAULT_RANGE.from || state.range.to !== "") said.set("from", state.range.from);
  if (state.range.to !== "") said.set("to", state.range.to);
  if (state.order === "asc") said.set("order", "asc");
  for (const name of state.columns) said.append("column", name);
  if (state.wrap) said.set("wrap", "1");
  if (state.tail) said.set("tail", "1");
  if (state.record !== "") said.set("record", state.record);
  const search = said.toString();
  return `${state.view === "nodes" ? "/nodes" : "/"}${search === "" ? "" : `?${search}`}`;
}
