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
  const params = new URLSearchParams(search);
  const record = params.get("record") ?? "";
  return {
    view: path === "/nodes" ? "nodes" : "explore",
    q: params.get("q") ?? "",
    range: { from: params.get("from") ?? DEFAULT_RANGE.from, to: params.get("to") ?? "" },
    order: params.get("order") === "asc" ? "asc" : "desc",
    columns: [...new Set(params.getAll("column").filter((name) => name !== ""))],
    wrap: params.get("wrap") === "1",
    tail: params.get("tail") === "1",
    record: /^[0-9A-Za-z]{26}$/.test(record) ? record : "",
  };
}

/** The URL of a state. */
export function writeState(state: PageState): string {
  const params = new URLSearchParams();
  if (state.q !== "") params.set("q", state.q);
  if (state.range.from !== DEFAULT_RANGE.from || state.range.to !== "") params.set("from", state.range.from);
  if (state.range.to !== "") params.set("to", state.range.to);
  if (state.order === "asc") params.set("order", "asc");
  for (const name of state.columns) params.append("column", name);
  if (state.wrap) params.set("wrap", "1");
  if (state.tail) params.set("tail", "1");
  if (state.record !== "") params.set("record", state.record);
  const search = params.toString();
  return `${state.view === "nodes" ? "/nodes" : "/"}${search === "" ? "" : `?${search}`}`;
}
