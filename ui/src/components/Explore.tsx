import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { type FieldFacts, learned } from "../lib/complete.ts";
import { highlighter } from "../lib/highlight.ts";
import { idMs } from "../lib/ids.ts";
import { absolute } from "../lib/ranges.ts";
import type { Query } from "../state/answer.ts";
import { go, pageState, usePage } from "../state/page.ts";
import { prefer, usePreferences, useZone } from "../state/preferences.ts";
import { answer, context, counts, search, tail } from "../state/session.ts";
import { useStore } from "../state/store.ts";
import { labelsQuery } from "../state/streamFacts.ts";
import { useFields, useSearch } from "../state/useSearch.ts";
import { useShown } from "../state/useShown.ts";
import type { Row } from "../worker/messages.ts";
import {
  addTerm,
  breakDown,
  closeRecord,
  copyLink,
  loadBefore,
  loadMore,
  openRecord,
  pauseCounting,
  scrolledAway,
  searchAgain,
  setFilter,
  setRange,
  settle,
  shiftRange,
  showInList,
  toggleColumn,
  toggleContext,
  toggleOrder,
  togglePause,
  toggleTail,
  toggleWrap,
} from "./actions.ts";
import { ContextBar } from "./ContextBar.tsx";
import { Button, IconButton } from "./controls.tsx";
import { Loading, Lost, NoMatch } from "./Empty.tsx";
import styles from "./Explore.module.css";
import { FieldsPanel } from "./FieldsPanel.tsx";
import { Histogram } from "./Histogram.tsx";
import { onKeys } from "./keys.ts";
import { DownloadMenu, SavedMenu } from "./Menus.tsx";
import { Notice } from "./Notice.tsx";
import { RangePicker } from "./RangePicker.tsx";
import { RecordList, type Reveal } from "./RecordList.tsx";
import { RecordPanel } from "./RecordPanel.tsx";
import { RefreshMenu } from "./RefreshMenu.tsx";
import { SearchBox } from "./SearchBox.tsx";
import { SelectionTools } from "./SelectionTools.tsx";
import { ListFoot, StatusLine, TailNotices, Trashed } from "./StatusLine.tsx";

const Start = lazy(() => import("./Start.tsx"));

/** Below this width the panels cover the list, and the fields panel starts closed. */
const NARROW = matchMedia("(max-width: 900px)");

/** Half of the range in which a record outside of the shown one is looked up. */
const AROUND_MS = 900_000;

function useNarrow(): boolean {
  return useSyncExternalStore(
    (changed) => {
      NARROW.addEventListener("change", changed);
      return () => NARROW.removeEventListener("change", changed);
    },
    () => NARROW.matches,
  );
}

/** The row of the keyboard cursor: a record and, for speed, where it was last. */
interface Cursor {
  id: string;
  index: number;
}

/** A record in view: in which answer, and whether records before the first one have been added to it. */
interface Place {
  record: string;
  answered: Query | undefined;
  extended: boolean;
}

const NOWHERE: Cursor = { id: "", index: -1 };

export function Explore() {
  const page = usePage();
  const { history, fields: fieldsWanted } = usePreferences();
  const zone = useZone();
  const narrow = useNarrow();
  const found = useStore(answer.store);
  const counted = useStore(counts.store);
  const followed = useStore(tail.store);
  const around = useStore(context.store);
  const { q, range, order, columns, sort, wrap, by, record, view } = page;
  const starting = view === "start";
  const following = page.tail && !starting;
  const fields = useFields();
  const facts = useMemo(() => fields.data?.fields ?? [], [fields.data]);
  const labels = useQuery({ ...labelsQuery(range), enabled: starting });
  const [known, setKnown] = useState<readonly FieldFacts[]>([]);
  useEffect(() => setKnown((known) => learned(known, facts)), [facts]);
  useEffect(() => setKnown((known) => learned(labels.data ?? [], known)), [labels.data]);
  const [cursor, setCursor] = useState<Cursor>(NOWHERE);
  const [reveal, setReveal] = useState<Reveal | undefined>();
  const [rangeOpen, setRangeOpen] = useState(false);
  const [savedOpen, setSavedOpen] = useState(false);
  // What is open on a narrow screen is not remembered: there it covers the records.
  const [fieldsOver, setFieldsOver] = useState(false);
  const fieldsOpen = narrow ? fieldsOver : fieldsWanted;
  const showFields = useCallback(
    (open: boolean) => (narrow ? setFieldsOver(open) : prefer({ fields: open })),
    [narrow],
  );
  const hideFields = useCallback(() => showFields(false), [showFields]);
  useSearch(() => setCursor(NOWHERE));

  const newestFirst = order === "desc";
  const shown = useShown({ following, found, followed, newestFirst, sort, around });
  const { count: rows, at: rowAt, indexOf } = shown;
  const filter = following ? q : (found.answered?.q ?? "");
  const find = useMemo(() => highlighter(filter), [filter]);
  const at = rowAt(cursor.index)?.id === cursor.id || cursor.id === "" ? cursor.index : indexOf(cursor.id);
  const setAt = useCallback((index: number) => setCursor({ id: rowAt(index)?.id ?? "", index }), [rowAt]);

  const recordAt = useMemo(() => (record === "" ? -1 : indexOf(record)), [record, indexOf]);
  const recordRow = rowAt(recordAt);
  // A record that is not loaded completely is fetched from the node.
  const shownRow = recordRow?.part === true ? undefined : recordRow;

  // A record that was opened elsewhere than in the list, by a link or Back, is brought into view.
  const inView = useRef<Place | undefined>(undefined);
  const { answered } = found;
  const extended = found.prepended > 0;
  useEffect(() => {
    const seen = inView.current;
    if (record === "" || recordAt < 0) inView.current = undefined;
    else if (seen?.record !== record || seen.answered !== answered || seen.extended !== extended) {
      inView.current = { record, answered, extended };
      setCursor({ id: record, index: recordAt });
      setReveal({ index: recordAt, align: "center" });
    }
  }, [record, recordAt, answered, extended]);

  // The context of a record is around it: it stays where it was.
  const middle = around.record?.id ?? "";
  const blockSize = around.rows.length;
  // biome-ignore lint/correctness/useExhaustiveDependencies: scrolled when the context has changed, not when rows arrive
  useEffect(() => {
    const index = middle === "" ? -1 : indexOf(middle);
    if (index < 0) return;
    setCursor({ id: middle, index });
    setReveal({ index, align: "center" });
  }, [middle, blockSize]);

  const openRow = useCallback(
    (row: Row, index: number) => {
      if (row.notice === true) return;
      setCursor({ id: row.id, index });
      inView.current = { record: row.id, answered, extended };
      openRecord(row.id);
    },
    [answered, extended],
  );
  const step = (by: 1 | -1) => {
    if (starting) return;
    const from = recordAt >= 0 ? recordAt : at;
    const to = Math.max(0, Math.min(from + by, rows - 1));
    const row = rowAt(to);
    if (row === undefined) return;
    setCursor({ id: row.id, index: to });
    setReveal({ index: to, align: "auto" });
    if (record !== "") openRow(row, to);
  };
  const openAt = () => {
    if (starting) return;
    const row = rowAt(Math.max(at, 0));
    if (row !== undefined) openRow(row, Math.max(at, 0));
  };
  const contextAt = () => {
    if (!starting) contextOf(recordRow ?? rowAt(at));
  };
  const latest = useRef({ step, openAt, contextAt, fieldsOpen, showFields });
  latest.current = { step, openAt, contextAt, fieldsOpen, showFields };
  useEffect(
    () =>
      onKeys({
        "/": () => document.getElementById("search")?.focus(),
        r: searchAgain,
        e: () => setRangeOpen(true),
        s: () => setSavedOpen(true),
        "[": () => shiftRange("earlier"),
        "]": () => shiftRange("later"),
        z: () => shiftRange("wider"),
        w: toggleWrap,
        o: toggleOrder,
        t: toggleTail,
        p: togglePause,
        f: () => latest.current.showFields(!latest.current.fieldsOpen),
        h: () => prefer({ folded: document.querySelector("[data-testid=histogram]") !== null }),
        c: () => copyLink(pageState().record),
        x: () => latest.current.contextAt(),
        ".": () => document.dispatchEvent(new CustomEvent("bucksaw:match", { detail: 1 })),
        ",": () => document.dispatchEvent(new CustomEvent("bucksaw:match", { detail: -1 })),
        j: () => latest.current.step(1),
        k: () => latest.current.step(-1),
        arrowdown: () => latest.current.step(1),
        arrowup: () => latest.current.step(-1),
        enter: () => latest.current.openAt(),
        escape: closeRecord,
      }),
    [],
  );
  const showRecord = (id: string) => {
    const ms = idMs(id);
    const span = counted.buckets;
    const [first, last] = [span[0], span.at(-1)];
    const inside =
      first !== undefined && last !== undefined && Date.parse(first.from) <= ms && ms < Date.parse(last.to);
    showInList(id, inside && !following ? undefined : absolute(ms - AROUND_MS, ms + AROUND_MS));
  };
  /** The context of a record has its place in the list, so the record must be in it. */
  const contextOf = (row: Row | undefined) => {
    toggleContext(row);
    // There the panel covers the list.
    if (narrow && record !== "") closeRecord();
    if (row !== undefined && indexOf(row.id) < 0) showRecord(row.id);
  };
  const rowOf = useCallback((id: string) => rowAt(indexOf(id)), [rowAt, indexOf]);

  const failure = following ? undefined : (found.failure ?? counted.failure);
  const problem = starting
    ? undefined
    : following
      ? followed.status === "refused"
        ? followed.message
        : undefined
      : failure?.kind === "refused"
        ? failure.message
        : undefined;
  const hints = starting ? [] : [...new Set([...(found.stats?.hints ?? []), ...(counted.stats?.hints ?? [])])];
  const busy = !starting && !following && (found.status === "loading" || found.status === "stale");
  const empty = !following && found.status === "ready" && found.count === 0;
  const lost = !following && failure !== undefined && failure.kind !== "refused";
  return (
    <main className={styles.view}>
      <h1 className="unseen">{starting ? "Streams of logs" : "Explore logs"}</h1>
      <search className={styles.query}>
        <SearchBox
          q={q}
          fields={known}
          history={history}
          problem={problem}
          hints={hints}
          onChange={setFilter}
          onTyping={pauseCounting}
          onSettled={settle}
        />
        <div className={styles.tools}>
          <RangePicker range={range} open={rangeOpen} onOpen={setRangeOpen} onChange={setRange} />
          {busy ? (
            <IconButton look="plain" icon="stop" name="Stop" onClick={() => answer.stop()} />
          ) : (
            <IconButton look="plain" icon="refresh" name="Search again" shortcut="r" onClick={searchAgain} />
          )}
          <RefreshMenu every={page.refresh} />
          <Button
            icon={following ? undefined : "play"}
            on={following}
            aria-pressed={following}
            onClick={toggleTail}
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
            onClick={() => copyLink(record)}
          />
          <DownloadMenu />
        </div>
      </search>
      {starting ? (
        <Suspense fallback={<Loading />}>
          <div id="found" tabIndex={-1} className={styles.start}>
            <Start range={range} zone={zone} onSearch={(q) => go({ view: "explore", q, record: "" })} />
          </div>
        </Suspense>
      ) : (
        <>
          <Histogram
            state={counted}
            loaded={following || found.status === "stale" || found.emptied ? 0 : found.count}
            by={by}
            fields={facts}
            zone={zone}
            busy={busy}
            onZoom={(from, to) => setRange(absolute(from, to))}
            onTerm={(term) => addTerm(term, false)}
            onBy={breakDown}
            onShift={shiftRange}
          />
          <div className={styles.bar}>
            <IconButton
              small
              icon="fields"
              name={fieldsOpen ? "Hide the fields" : "Show the fields"}
              shortcut="f"
              on={fieldsOpen}
              aria-expanded={fieldsOpen}
              onClick={() => showFields(!fieldsOpen)}
            />
            <StatusLine
              following={following}
              found={found}
              counted={counted}
              followed={followed}
              sort={following ? undefined : sort}
            />
            <Button small look="bare" icon="sort" title="Newest or oldest first (o)" onClick={toggleOrder}>
              {newestFirst ? "Newest first" : "Oldest first"}
            </Button>
            <Button
              small
              look="bare"
              icon="wrap"
              on={wrap}
              aria-pressed={wrap}
              title="Wrap lines (w)"
              onClick={toggleWrap}
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
                onClose={hideFields}
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
              <Trashed stats={found.stats ?? counted.stats} />
              {lost && found.count > 0 ? (
                <Notice kind="bad">
                  <p>
                    {failure?.kind === "busy" ? "The node is busy: " : "The node does not answer: "}
                    {failure?.message}. What is shown came before.
                  </p>
                  <Button small icon="refresh" onClick={searchAgain}>
                    Try again
                  </Button>
                </Notice>
              ) : undefined}
              {following ? <TailNotices followed={followed} /> : undefined}
              <ContextBar around={around} newestFirst={newestFirst} zone={zone} />
              {lost && found.count === 0 ? (
                <Lost message={failure?.message ?? ""} onRetry={searchAgain} />
              ) : empty ? (
                <NoMatch q={q} range={range} onQuery={(q) => go({ q })} onRange={setRange} onFirst={search} />
              ) : rows === 0 && busy ? (
                <Loading />
              ) : (
                <RecordList
                  count={rows}
                  rowAt={rowAt}
                  columns={columns}
                  sort={following ? undefined : sort}
                  sortable={!following}
                  wrap={wrap}
                  zone={zone}
                  stale={!following && (found.status === "stale" || found.emptied)}
                  find={find}
                  at={at}
                  open={record}
                  middle={middle}
                  reveal={reveal}
                  prepended={following ? 0 : found.prepended}
                  foot={
                    <ListFoot
                      following={following}
                      found={found}
                      followed={followed}
                      rows={rows}
                      sort={following ? undefined : sort}
                    />
                  }
                  onAt={setAt}
                  onOpen={openRow}
                  more={!following && found.status === "ready" && found.more && !found.full && sort === undefined}
                  moreBefore={!following && found.moreBefore && !found.loadingBefore && sort === undefined}
                  onNearEnd={loadMore}
                  onNearStart={loadBefore}
                  onAway={scrolledAway}
                  onRemoveColumn={toggleColumn}
                />
              )}
            </div>
            {record === "" ? undefined : (
              <RecordPanel
                id={record}
                row={shownRow}
                listed={recordAt >= 0}
                around={middle === record}
                columns={columns}
                zone={zone}
                find={find}
                onTerm={addTerm}
                onColumn={toggleColumn}
                onClose={closeRecord}
                onStep={step}
                onLink={copyLink}
                onContext={contextOf}
                onShow={showRecord}
              />
            )}
          </div>
          <SelectionTools rowOf={rowOf} onTerm={addTerm} />
        </>
      )}
    </main>
  );
}
