import { call } from "../state/streams.ts";
import type { Row, Stats } from "../worker/messages.ts";
import { readLine } from "../worker/rows.ts";

interface Around {
  records: unknown[];
  stats: Stats;
}

/** Fetches the records before and after one in its stream, oldest first. */
export function aroundQuery(id: string, before: number, after: number) {
  return {
    queryKey: ["around", id, before, after],
    queryFn: async ({ signal }: { signal: AbortSignal }): Promise<Row[]> => {
      const { records } = await call<Around>("context", { id, before, after }, signal);
      return records.flatMap((record) => {
        const said = readLine(JSON.stringify(record));
        return said.kind === "row" ? [said.row] : [];
      });
    },
    // Keep the shown records while more of the same stream are fetched.
    placeholderData: (rows: Row[] | undefined) => (rows?.some((row) => row.id === id) === true ? rows : undefined),
  };
}
