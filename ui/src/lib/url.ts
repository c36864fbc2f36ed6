import { DEFAULT_RANGE, type Range } from "./ranges.ts";

/** The state that a URL holds. Missing parts have the values of {@link DEFAULT_STATE}. */
export interface PageState {
  view: "explore" | "nodes";
  q: string;
  range: Range;
  order: "desc" | "asc";
  /** Names of the fields shown as columns. */
  columns: readonly string[];
  wrap: boolean;
  /** Whether live mode is on. */
  tail: boolean;
  /** The id of the open record. */
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

/** Parses the state of a URL. */
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

/** The URL of a state. */
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
