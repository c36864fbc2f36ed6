import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import type { FieldFacts } from "../lib/complete.ts";
import { usePage } from "./page.ts";
import { answer, count, search, settled, stopCounting, tail } from "./session.ts";
import { useStore } from "./store.ts";
import { call } from "./streams.ts";

/** Milliseconds between two counts in live mode; at least five times the duration of the last one. */
const COUNT_EVERY_MS = 2_000;

/** Counts between two requests for fields, which cost more; the first match requests them at once. */
const COUNTS_PER_FIELDS = 8;

/** Runs the search of the page's state, again when it changes. `onStart` is called at each start. */
export function useSearch(onStart: () => void) {
  const { q, range, order, tail: following } = usePage();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the state is read when it is used; these trigger
  useEffect(() => {
    onStart();
    if (!following) {
      search();
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
  }, [q, range.from, range.to, order, following]);

  useEffect(
    () => () => {
      answer.stop();
      stopCounting();
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
