import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { type FieldFacts, learned } from "../lib/complete.ts";
import { highlighter } from "../lib/highlight.ts";
import type { Level } from "../lib/level.ts";
import { levelTerm } from "../lib/levelTerm.ts";
import { absolute } from "../lib/ranges.ts";
import { go, pageState, usePage } from "../state/page.ts";
import { prefer, usePreferences } from "../state/preferences.ts";
import { answer, counts, search, tail } from "../state/session.ts";
import { useStore } from "../state/store.ts";
import { useFields, useSearch } from "../state/useSearch.ts";
import type { Row } from "../worker/messages.ts";
import {
  addTerm,
  closeRecord,
  copyLink,
  loadMore,
  openRecord,
  pauseCounting,
  scrolledAway,
  searchAgain,
  setFilter,
  setRange,
  shiftRange,
  toggleColumn,
  toggleOrder,
  togglePause,
  toggleTail,
  toggleWrap,
} from "./actions.ts";
import { Button, IconButton } from "./controls.tsx";
import { Loading, Lost, NoMatch } from "./Empty.tsx";
import styles from "./Explore.module.css";
import { FieldsPanel } from "./FieldsPanel.tsx";
import { Histogram } from "./Histogram.tsx";
import { onKeys } from "./keys.ts";
import { DownloadMenu, SavedMenu } from "./Menus.tsx";
import { Notice } from "./Notice.tsx";
import { RangePicker } from "./RangePicker.tsx";
import { RecordList } from "./RecordList.tsx";
import { RecordPanel } from "./RecordPanel.tsx";
import { SearchBox } from "./SearchBox.tsx";
import { SelectionTools } from "./SelectionTools.tsx";
import { ListFoot, StatusLine, TailNotices, Trashed } from "./StatusLine.tsx";

/** Below this width the panels cover the list, and the fields panel starts closed. */
const NARROW_PX = 900;

export function Explore() {
  const page = usePage();
  const { utc, history, fields: fieldsWanted } = usePreferences();
  const found = useStore(answer.store);
  const counted = useStore(counts.store);
  const followed = useStore(tail.store);
  const fields = useFields();
  const facts = useMemo(() => fields.data?.fields ?? [], [fields.data]);
  const [known, setKnown] = useState<readonly FieldFacts[]>([]);
  useEffect(() => setKnown((known) => learned(known, facts)), [facts]);
  const [at, setAt] = useState(-1);
  const [rangeOpen, setRangeOpen] = useState(false);
  const [savedOpen, setSavedOpen] = useState(false);
  const { q, range, order, columns, wrap, record } = page;
  const following = page.tail;
  const fieldsOpen = fieldsWanted ?? innerWidth > NARROW_PX;
  useSearch(() => setAt(-1));

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
  const filter = following ? q : (found.answered?.q ?? "");
  const find = useMemo(() => highlighter(filter), [filter]);

  const shownRow = useMemo(() => {
    if (record === "") return undefined;
    for (let index = 0; index < rows; index += 1) {
      const row = rowAt(index);
      // A record that is not loaded completely is fetched from the node.
      if (row?.id === record) return row.part === true ? undefined : row;
    }
    return undefined;
  }, [record, rows, rowAt]);

  const openRow = useCallback((row: Row, index: number) => {
    if (row.notice === true) return;
    setAt(index);
    openRecord(row.id);
  }, []);
  const step = (by: 1 | -1) => {
    const to = Math.max(0, Math.min(at + by, rows - 1));
    const row = rowAt(to);
    if (row === undefined) return;
    setAt(to);
    if (record !== "" && row.notice !== true) openRecord(row.id);
  };
  const openAt = () => {
    const row = rowAt(Math.max(at, 0));
    if (row !== undefined) openRow(row, Math.max(at, 0));
  };
  const latest = useRef({ step, openAt, fieldsOpen });
  latest.current = { step, openAt, fieldsOpen };
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
        f: () => prefer({ fields: !latest.current.fieldsOpen }),
        c: () => copyLink(pageState().record),
        x: () => document.dispatchEvent(new Event("bucksaw:context")),
        j: () => latest.current.step(1),
        k: () => latest.current.step(-1),
        arrowdown: () => latest.current.step(1),
        arrowup: () => latest.current.step(-1),
        enter: () => latest.current.openAt(),
        escape: closeRecord,
      }),
    [],
  );
  const onLevel = (level: Level) => addTerm(levelTerm(level, facts, fields.data?.records ?? 0), false);

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
      <search className={styles.query}>
        <SearchBox
          q={q}
          fields={known}
          history={history}
          problem={problem}
          onChange={setFilter}
          onTyping={pauseCounting}
        />
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
            <IconButton look="plain" icon="refresh" name="Search again" shortcut="r" onClick={searchAgain} />
          )}
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
      <Histogram
        state={counted}
        utc={utc}
        busy={busy}
        onZoom={(from, to) => setRange(absolute(from, to))}
        onLevel={onLevel}
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
          onClick={() => prefer({ fields: !fieldsOpen })}
        />
        <StatusLine following={following} found={found} counted={counted} followed={followed} />
        <Button small look="bare" icon="sort" title="Newest or oldest first (o)" onClick={toggleOrder}>
          {newestFirst ? "Newest first" : "Oldest first"}
        </Button>
        <Button small look="bare" icon="wrap" on={wrap} aria-pressed={wrap} title="Wrap lines (w)" onClick={toggleWrap}>
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
              wrap={wrap}
              utc={utc}
              stale={!following && found.status === "stale"}
              find={find}
              at={at}
              open={record}
              foot={<ListFoot following={following} found={found} followed={followed} rows={rows} />}
              onAt={setAt}
              onOpen={openRow}
              more={!following && found.status === "ready" && found.more && !found.full}
              onNearEnd={loadMore}
              onAway={scrolledAway}
              onRemoveColumn={toggleColumn}
            />
          )}
        </div>
        {record === "" ? undefined : (
          <RecordPanel
            id={record}
            row={shownRow}
            columns={columns}
            utc={utc}
            find={find}
            onTerm={addTerm}
            onColumn={toggleColumn}
            onOpen={openRecord}
            onClose={closeRecord}
            onStep={step}
            onLink={copyLink}
          />
        )}
      </div>
      <SelectionTools onTerm={addTerm} />
    </main>
  );
}
