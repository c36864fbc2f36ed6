import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import type { FieldFacts } from "../lib/complete.ts";
import { idMs } from "../lib/ids.ts";
import { momentMs } from "../lib/ranges.ts";
import { pageState, usePage } from "./page.ts";
import { answer, context, count, refresh, search, settled, stopCounting, tail } from "./session.ts";
import { useStore } from "./store.ts";
import { call } from "./streams.ts";
import { shownZone } from "./zone.ts";

/** Milliseconds between two counts in live mode; at least five times the duration of the last one. */
const COUNT_EVERY_MS = 2_000;

/** Counts between two requests for fields, which cost more; the first match requests them at once. */
const COUNTS_PER_FIELDS = 8;

/** The open record, as the start of the list, if it is in the range. */
function anchor(): string | undefined {
  const { record, range } = pageState();
  if (record === "") return undefined;
  const [now, zone, at] = [Date.now(), shownZone(), idMs(record)];
  const [from, to] = [momentMs(range.from, now, zone) ?? 0, momentMs(range.to, now, zone) ?? now];
  return at >= Math.floor(from) && at <= to ? record : undefined;
}

/** Runs the search of the page's state, again when it changes. `onStart` is called at each start. */
export function useSearch(onStart: () => void) {
  const { q, range, order, tail: tailing, by, refresh: every, view } = usePage();
  const starting = view === "start";
  const following = tailing && !starting;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the state is read when it is used; these trigger
  useEffect(() => {
    onStart();
    // The context of the open record moves with it.
    if (starting || context.store.value.record?.id !== pageState().record) context.close();
    if (starting) return;
    if (!following) {
      search(anchor());
      return;
    }
    answer.stop();
    tail.start(q);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const again = (quietly: boolean) => {
      const started = performance.now();
      count(quietly, () => {
        timer = setTimeout(() => again(true), Math.max(COUNT_EVERY_MS, 5 * (performance.now() - started)));
      });
    };
    again(false);
    return () => {
      clearTimeout(timer);
      tail.stop();
    };
  }, [q, range.from, range.to, order, following, starting]);

  // Another breakdown of the same matches.
  const first = useRef(true);
  // biome-ignore lint/correctness/useExhaustiveDependencies: this triggers
  useEffect(() => {
    if (first.current) first.current = false;
    else if (!starting) count(false);
  }, [by]);

  useEffect(() => {
    if (every === 0 || following || starting) return;
    const timer = setInterval(() => {
      // A hidden page has no reader; an open record or context must not move.
      if (!document.hidden && pageState().record === "" && context.store.value.record === undefined) refresh();
    }, every * 1_000);
    const look = () => {
      if (!document.hidden) refresh();
    };
    document.addEventListener("visibilitychange", look);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, [every, following, starting]);

  useEffect(
    () => () => {
      answer.stop();
      stopCounting();
      context.close();
    },
    [],
  );
}

export interface FieldsAnswer {
  fields: FieldFacts[];
  records: number;
  sampled: boolean;
}

/** The fields of the shown answer, requested after records and counts. */
export function useFields() {
  const { tail: following } = usePage();
  const { times, q, from, to, any } = useStore(settled);
  return useQuery({
    queryKey: ["fields", q, from, to, any, following ? Math.ceil(times / COUNTS_PER_FIELDS) : times],
    queryFn: ({ signal }) => call<FieldsAnswer>("fields", { q, from, to }, signal),
    enabled: times > 0,
    placeholderData: keepPreviousData,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 10_000,
    retry: false,
  });
}
