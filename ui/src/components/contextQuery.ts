import { call } from "../state/streams.ts";
import type { Row, Stats } from "../worker/messages.ts";
import { readLine } from "../worker/rows.ts";

interface ContextAnswer {
  records: unknown[];
  stats: Stats;
}

/** Fetches the records before and after one in its stream, oldest first. */
export function contextQuery(id: string, before: number, after: number) {
  return {
    queryKey: ["context", id, before, after],
    queryFn: async ({ signal }: { signal: AbortSignal }): Promise<Row[]> => {
      const { records } = await call<ContextAnswer>("context", { id, before, after }, signal);
      return records.flatMap((record) => {
        const parsed = readLine(JSON.stringify(record));
        return parsed.kind === "row" ? [parsed.row] : [];
      });
    },
    // Keep the shown records while more of the same stream are fetched.
    placeholderData: (rows: Row[] | undefined) => (rows?.some((row) => row.id === id) === true ? rows : undefined),
  };
}
