import { DEFAULT_RANGE, type Range } from "./ranges.ts";

/** The order of the loaded records by a field. */
export interface Sort {
  name: string;
  descending: boolean;
}

/** The seconds between two refreshes; 0 for none. */
export const REFRESH_SECONDS = [0, 5, 10, 30, 60, 300] as const;

/** The derived field of the level of a record. */
export const LEVEL_FIELD = "@level";

/** The state that a URL holds. Missing parts have the values of {@link DEFAULT_STATE}. */
export interface PageState {
  /** `start` is the page before the first search. */
  view: "start" | "explore" | "nodes";
  q: string;
  range: Range;
  order: "desc" | "asc";
  /** Names of the fields shown as columns. */
  columns: readonly string[];
  sort: Sort | undefined;
  wrap: boolean;
  /** The field by which the histogram is broken down; empty for none. */
  by: string;
  /** Whether live mode is on. */
  tail: boolean;
  /** Seconds after which a search is repeated. */
  refresh: number;
  /** The id of the open record. */
  record: string;
}

export const DEFAULT_STATE: PageState = {
  view: "explore",
  q: "",
  range: DEFAULT_RANGE,
  order: "desc",
  columns: [],
  sort: undefined,
  wrap: false,
  by: LEVEL_FIELD,
  tail: false,
  refresh: 0,
  record: "",
};

/** Parses the state of a URL. */
export function readState(path: string, search: string): PageState {
  const params = new URLSearchParams(search);
  const record = params.get("record") ?? "";
  const sort = params.get("sort") ?? "";
  const refresh = Number(params.get("refresh"));
  return {
    view: path === "/nodes" ? "nodes" : params.size === 0 ? "start" : "explore",
    q: params.get("q") ?? "",
    range: { from: params.get("from") ?? DEFAULT_RANGE.from, to: params.get("to") ?? "" },
    order: params.get("order") === "asc" ? "asc" : "desc",
    columns: [...new Set(params.getAll("column").filter((name) => name !== ""))],
    sort: sort.length < 2 ? undefined : { name: sort.slice(1), descending: sort.startsWith("-") },
    wrap: params.get("wrap") === "1",
    by: params.get("by") ?? LEVEL_FIELD,
    tail: params.get("tail") === "1",
    refresh: REFRESH_SECONDS.find((seconds) => seconds === refresh) ?? 0,
    record: /^[0-9A-Za-z]{26}$/.test(record) ? record : "",
  };
}

/** The URL of a state. A search has at least `q`, so that it differs from the start. */
export function writeState(state: PageState): string {
  const params = new URLSearchParams();
  if (state.q !== "") params.set("q", state.q);
  if (state.range.from !== DEFAULT_RANGE.from || state.range.to !== "") params.set("from", state.range.from);
  if (state.range.to !== "") params.set("to", state.range.to);
  if (state.order === "asc") params.set("order", "asc");
  for (const name of state.columns) params.append("column", name);
  if (state.sort !== undefined) params.set("sort", `${state.sort.descending ? "-" : "+"}${state.sort.name}`);
  if (state.wrap) params.set("wrap", "1");
  if (state.by !== LEVEL_FIELD) params.set("by", state.by);
  if (state.tail) params.set("tail", "1");
  if (state.refresh > 0) params.set("refresh", String(state.refresh));
  if (state.record !== "") params.set("record", state.record);
  if (state.view === "start") return "/";
  if (state.view === "explore" && params.size === 0) params.set("q", "");
  const search = params.toString();
  return `${state.view === "nodes" ? "/nodes" : "/"}${search === "" ? "" : `?${search}`}`;
}
