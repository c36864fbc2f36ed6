import { useCallback, useMemo } from "react";
import { sortedRows, withContext } from "../lib/shownRows.ts";
import type { Sort } from "../lib/url.ts";
import type { Row } from "../worker/messages.ts";
import type { AnswerState } from "./answer.ts";
import type { ContextState } from "./context.ts";
import type { TailState } from "./tail.ts";

/** The rows of the list as they are shown. */
export interface Shown {
  count: number;
  at: (index: number) => Row | undefined;
  /** The place of a record; -1 if it is not shown. */
  indexOf: (id: string) => number;
}

interface Source {
  following: boolean;
  found: AnswerState;
  followed: TailState;
  newestFirst: boolean;
  sort: Sort | undefined;
  around: ContextState;
}

/** The rows of the answer or of live mode, sorted if wanted, with the context of one of them. */
export function useShown({ following, found, followed, newestFirst, sort, around }: Source): Shown {
  const plainCount = following ? followed.rows.length : found.count;
  // biome-ignore lint/correctness/useExhaustiveDependencies: rows change in place, and the version and count tell
  const plainAt = useCallback(
    (index: number): Row | undefined => {
      if (!following) return found.rows[index];
      return followed.rows.at(newestFirst ? followed.rows.length - 1 - index : index);
    },
    [following, newestFirst, found.rows, found.prepended, followed.rows, followed.version],
  );
  const sorting = following ? undefined : sort;
  const listed = useMemo((): readonly Row[] | undefined => {
    if (sorting === undefined && around.record === undefined) return undefined;
    let rows: Row[] = [];
    for (let index = 0; index < plainCount; index += 1) {
      const row = plainAt(index);
      if (row !== undefined) rows.push(row);
    }
    if (sorting !== undefined) rows = sortedRows(rows, sorting);
    if (around.record === undefined) return rows;
    return withContext(rows, newestFirst ? around.rows.toReversed() : around.rows, around.record.id, newestFirst);
  }, [sorting, around.record, around.rows, newestFirst, plainAt, plainCount]);

  const at = useCallback((index: number) => (listed === undefined ? plainAt(index) : listed[index]), [listed, plainAt]);
  const count = listed?.length ?? plainCount;
  const indexOf = useCallback(
    (id: string) => {
      for (let index = 0; index < count; index += 1) if (at(index)?.id === id) return index;
      return -1;
    },
    [at, count],
  );
  return { count, at, indexOf };
}
