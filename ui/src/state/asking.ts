import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import type { FieldFacts } from "../lib/complete.ts";
import { usePage } from "./page.ts";
import { answer, count, search, settled, stopCounting, tail } from "./session.ts";
import { useStore } from "./store.ts";
import { call } from "./streams.ts";

/** While following, the counts are looked at anew after so long, and after five times what that took. */
const COUNT_EVERY_MS = 2_000;

/** And the fields, which cost more, after so many counts; but at once when there is something for the first time. */
const COUNTS_PER_FIELDS = 8;

/** Asks the node for what the state of the page wants, and anew when that changes. `begun` is called then. */
export function useAsking(begun: () => void) {
  const { q, range, order, tail: following } = usePage();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the state is read where it is used; these say when
  useEffect(() => {
    begun();
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

/** The fields of what is shown. They are asked for last, when the records and counts are there. */
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
