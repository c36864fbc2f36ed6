import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { negated, withTerm } from "../lib/expression.ts";
import { highlighter } from "../lib/highlight.ts";
import type { Level } from "../lib/level.ts";
import { levelTerm } from "../lib/levelTerm.ts";
import { absolute, durationMs, type Range, shifted } from "../lib/ranges.ts";
import { writeState } from "../lib/url.ts";
import { go, pageState, usePage } from "../state/page.ts";
import { prefer, remember, usePreferences } from "../state/preferences.ts";
import { answer, count, counts, pinned, search, settled, shownSpan, tail } from "../state/session.ts";
import { useStore } from "../state/store.ts";
import { call } from "../state/streams.ts";
import type { Row } from "../worker/messages.ts";
import { say } from "./Announcer.tsx";
import { Button, IconButton } from "./controls.tsx";
import { copy } from "./copy.ts";
import { Loading, Lost, NoMatch } from "./Empty.tsx";
import styles from "./Explore.module.css";
import { type FieldsAnswer, FieldsPanel } from "./FieldsPanel.tsx";
import { Histogram } from "./Histogram.tsx";
import { onKeys } from "./keys.ts";
import { DownloadMenu, SavedMenu } from "./Menus.tsx";
import { Notice } from "./Notice.tsx";
import { RangePicker } from "./RangePicker.tsx";
import { RecordList } from "./RecordList.tsx";
import { RecordPanel } from "./RecordPanel.tsx";
import { ListFoot, Said, TailNotices } from "./Said.tsx";
import { SearchBox } from "./SearchBox.tsx";
import { SelectionTools } from "./SelectionTools.tsx";

/** While following, the counts are looked at anew after so long, and after five times what that took. */
const COUNT_EVERY_MS = 2_000;

/** Narrower than this the panels lie over the list, and the fields wait to be asked for. */
const NARROW_PX = 900;

export function Explore() {
  const page = usePage();
  const { utc, history, fields: fieldsWanted } = usePreferences();
  const found = useStore(answer.store);
  const counted = useStore(counts.store);
  const followed = useStore(tail.store);
  const { times } = useStore(settled);
  const [at, setAt] = useState(-1);
  const [rangeOpen, setRangeOpen] = useState(false);
  const [savedOpen, setSavedOpen] = useState(false);
  const { q, range, order, columns, wrap, record } = page;
  const following = page.tail;
  const fieldsOpen = fieldsWanted ?? innerWidth > NARROW_PX;

  // What is asked changes the records, the counts, and all that rests on them.
  // biome-ignore lint/correctness/useExhaustiveDependencies: the state is read where it is used; these say when
  useEffect(() => {
    setAt(-1);
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
      counts.stop();
    },
    [],
  );

  const fields = useQuery({
    queryKey: ["fields", q, range.from, range.to, times],
    queryFn: ({ signal }) => call<FieldsAnswer>("fields", { q, from: range.from, to: range.to }, signal),
    enabled: times > 0,
    placeholderData: keepPreviousData,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 10_000,
    retry: false,
  });
  const facts = useMemo(() => fields.data?.fields ?? [], [fields.data]);

  const rows = following ? followed.rows.length : found.count;
  const newestFirst = order === "desc";
  // biome-ignore lint/correctness/useExhaustiveDependencies: the rows of a stream change in place, and their version tells
  const rowAt = useCallback(
    (index: number): Row | undefined => {
      if (!following) return found.rows[index];
      return followed.rows.at(newestFirst ? followed.rows.length - 1 - index : index);
    },
    [following, newestFirst, found.rows, followed.rows, followed.version],
  );
  const asked = following ? q : (found.question?.q ?? "");
  const find = useMemo(() => highlighter(asked), [asked]);

  const openRow = useMemo(() => {
    if (record === "") return undefined;
    for (let index = 0; index < rows; index += 1) {
      const row = rowAt(index);
      // Of what is not here whole, the node is asked.
      if (row?.id === record) return row.part === true ? undefined : row;
    }
    return undefined;
  }, [record, rows, rowAt]);

  const setQ = useCallback((q: string, settled: boolean) => {
    go({ q, record: "" }, settled ? "push" : "replace");
  }, []);
  const addTerm = useCallback((term: string, without: boolean) => {
    const q = withTerm(pageState().q, without ? negated(term) : term);
    remember(q);
    go({ q });
    say(without ? "Left out" : "Added to the filter");
  }, []);
  const setRange = useCallback((range: Range) => go({ range, tail: range.to === "" && pageState().tail }), []);
  const toggleColumn = useCallback((name: string) => {
    const { columns } = pageState();
    go({ columns: columns.includes(name) ? columns.filter((other) => other !== name) : [...columns, name] });
  }, []);
  const openRecord = useCallback((row: Row, index: number) => {
    setAt(index);
    go({ record: row.id }, pageState().record === "" ? "push" : "replace");
  }, []);
  const closeRecord = useCallback(() => {
    go({ record: "" });
    document.getElementById("records")?.focus();
  }, []);
  const shift = useCallback(
    (how: "earlier" | "later" | "wider") => {
      setRange(shifted(...shownSpan(), how, Date.now()));
    },
    [setRange],
  );
  const follow = useCallback(() => {
    const { tail, range } = pageState();
    // Who follows looks at what is now.
    const open = range.to === "" && durationMs(range.from) !== undefined ? range : { from: "15m", to: "" };
    go(tail ? { tail: false } : { tail: true, range: open });
  }, []);
  const link = useCallback((record: string) => {
    const address = writeState({ ...pageState(), range: pinned(), tail: false, record });
    copy(location.origin + address, "a link with fixed times");
  }, []);
  const again = useCallback(() => (pageState().tail ? tail.start(pageState().q) : search()), []);
  const onLevel = (level: Level) => addTerm(levelTerm(level, facts, fields.data?.records ?? 0), false);
  const near = useCallback(() => {
    if (!pageState().tail) answer.more();
  }, []);
  const away = useCallback((away: boolean) => {
    // Records that are being read must not move away.
    if (pageState().tail && pageState().order === "desc" && away) tail.pause();
  }, []);

  const step = useCallback(
    (by: 1 | -1) => {
      const to = Math.max(0, Math.min(at + by, rows - 1));
      const row = rowAt(to);
      if (row === undefined) return;
      setAt(to);
      if (pageState().record !== "") openRecord(row, to);
    },
    [at, rows, rowAt, openRecord],
  );
  const openAt = () => {
    const row = rowAt(Math.max(at, 0));
    if (row !== undefined) openRecord(row, Math.max(at, 0));
  };
  const latest = useRef({ step, fieldsOpen, open: openAt });
  latest.current = { step, fieldsOpen, open: openAt };
  useEffect(
    () =>
      onKeys({
        "/": () => document.getElementById("search")?.focus(),
        r: again,
        e: () => setRangeOpen(true),
        s: () => setSavedOpen(true),
        "[": () => shift("earlier"),
        "]": () => shift("later"),
        z: () => shift("wider"),
        w: () => go({ wrap: !pageState().wrap }),
        o: () => go({ order: pageState().order === "desc" ? "asc" : "desc" }),
        t: follow,
        p: () => (tail.store.value.paused ? tail.resume() : tail.pause()),
        f: () => prefer({ fields: !latest.current.fieldsOpen }),
        c: () => link(pageState().record),
        x: () => document.dispatchEvent(new Event("bucksaw:context")),
        j: () => latest.current.step(1),
        k: () => latest.current.step(-1),
        arrowdown: () => latest.current.step(1),
        arrowup: () => latest.current.step(-1),
        enter: () => latest.current.open(),
        escape: closeRecord,
      }),
    [again, shift, follow, link, closeRecord],
  );

  const failure = following ? undefined : (found.failure ?? counted.failure);
  const problem = following
    ? followed.message.startsWith("q: ")
      ? followed.message
      : undefined
    : failure?.kind === "refused"
      ? failure.message
      : undefined;
  const busy = !following && (found.status === "loading" || found.status === "stale");
  const empty = !following && found.status === "ready" && found.count === 0;
  const lost = !following && failure !== undefined && failure.kind !== "refused";
  return (
    <main className={styles.view}>
      <h1 className="unseen">Explore logs</h1>
      <search className={styles.ask}>
        <SearchBox q={q} fields={facts} history={history} problem={problem} onChange={setQ} />
        <div className={styles.tools}>
          <RangePicker
            key={`${range.from} ${range.to} ${utc}`}
            range={range}
            utc={utc}
            open={rangeOpen}
            onOpen={setRangeOpen}
            onChange={setRange}
          />
          {busy ? (
            <IconButton look="plain" icon="stop" name="Stop" onClick={() => answer.stop()} />
          ) : (
            <IconButton look="plain" icon="refresh" name="Search again" shortcut="r" onClick={again} />
          )}
          <Button
            icon={following ? undefined : "play"}
            on={following}
            aria-pressed={following}
            onClick={follow}
            title="Follow new records (t)"
          >
            {following ? <span className={styles.dot} /> : undefined}
            Live
          </Button>
          <SavedMenu open={savedOpen} onOpen={setSavedOpen} />
          <IconButton
            look="plain"
            icon="link"
            name="Copy a link with fixed times"
            shortcut="c"
            onClick={() => link(record)}
          />
          <DownloadMenu />
        </div>
      </search>
      <Histogram
        state={counted}
        utc={utc}
        busy={busy}
        onZoom={(from, to) => setRange(absolute(from, to))}
        onLevel={onLevel}
        onShift={shift}
      />
      <div className={styles.bar}>
        <IconButton
          small
          icon="fields"
          name={fieldsOpen ? "Hide the fields" : "Show the fields"}
          shortcut="f"
          on={fieldsOpen}
          aria-expanded={fieldsOpen}
          onClick={() => prefer({ fields: !fieldsOpen })}
        />
        <Said following={following} found={found} counted={counted} followed={followed} />
        <Button
          small
          look="bare"
          icon="sort"
          title="Newest or oldest first (o)"
          onClick={() => go({ order: newestFirst ? "asc" : "desc" })}
        >
          {newestFirst ? "Newest first" : "Oldest first"}
        </Button>
        <Button
          small
          look="bare"
          icon="wrap"
          on={wrap}
          aria-pressed={wrap}
          title="Wrap lines (w)"
          onClick={() => go({ wrap: !wrap })}
        >
          Wrap
        </Button>
      </div>
      <div className={styles.main}>
        {fieldsOpen ? (
          <FieldsPanel
            answer={fields.data}
            problem={fields.error === null ? undefined : fields.error.message}
            columns={columns}
            onTerm={addTerm}
            onColumn={toggleColumn}
            onClose={() => prefer({ fields: false })}
          />
        ) : undefined}
        <div className={styles.records} id="found" tabIndex={-1}>
          {counted.stats?.partial === true || found.stats?.partial === true ? (
            <Notice kind="caution">
              <p>
                <b>Records may be missing.</b>{" "}
                {[
                  ...new Set([...(found.stats?.partial_reasons ?? []), ...(counted.stats?.partial_reasons ?? [])]),
                ].join("; ")}
              </p>
            </Notice>
          ) : undefined}
          {lost && found.count > 0 ? (
            <Notice kind="bad">
              <p>
                {failure?.kind === "busy" ? "The node is busy: " : "The node does not answer: "}
                {failure?.message}. What is shown came before.
              </p>
              <Button small icon="refresh" onClick={again}>
                Try again
              </Button>
            </Notice>
          ) : undefined}
          {following ? <TailNotices followed={followed} /> : undefined}
          {lost && found.count === 0 ? (
            <Lost message={failure?.message ?? ""} onRetry={again} />
          ) : empty ? (
            <NoMatch q={q} range={range} onQuery={(q) => go({ q })} onRange={setRange} onFirst={search} />
          ) : rows === 0 && busy ? (
            <Loading />
          ) : (
            <RecordList
              count={rows}
              rowAt={rowAt}
              columns={columns}
              wrap={wrap}
              utc={utc}
              stale={!following && found.status === "stale"}
              find={find}
              at={at}
              open={record}
              foot={<ListFoot following={following} found={found} followed={followed} rows={rows} />}
              onAt={setAt}
              onOpen={openRecord}
              more={!following && found.status === "ready" && found.more && !found.full}
              onNearEnd={near}
              onAway={away}
              onRemoveColumn={toggleColumn}
            />
          )}
        </div>
        {record === "" ? undefined : (
          <RecordPanel
            id={record}
            row={openRow}
            columns={columns}
            utc={utc}
            find={find}
            onTerm={addTerm}
            onColumn={toggleColumn}
            onOpen={(id) => go({ record: id })}
            onClose={closeRecord}
            onStep={step}
            onLink={link}
          />
        )}
      </div>
      <SelectionTools onTerm={addTerm} />
    </main>
  );
}
