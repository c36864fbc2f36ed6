import { useQueries, useQuery } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type MouseEvent, useMemo, useRef, useState } from "react";
import { bytes, count, plural, share } from "../lib/numbers.ts";
import { type Range, rangeName } from "../lib/ranges.ts";
import { short } from "../lib/times.ts";
import { DEFAULT_STATE, writeState } from "../lib/url.ts";
import { clusterQuery, isEmpty } from "../state/cluster.ts";
import {
  CHUNK,
  STREAMS_FIRST,
  STREAMS_MAX,
  type StreamFacts,
  streamsQuery,
  streamTerm,
  volumeQuery,
} from "../state/streamFacts.ts";
import { Button, controls } from "./controls.tsx";
import { FirstVisit, Loading, Lost, useOnFirst } from "./Empty.tsx";
import { Notice } from "./Notice.tsx";
import { SendLogs } from "./SendLogs.tsx";
import { Sparkline } from "./Sparkline.tsx";
import styles from "./Start.module.css";

/** The height of a row. */
const ROW_PX = 38;

/** Milliseconds after which the volume is asked for again. A hidden page asks for nothing. */
const AGAIN_MS = 30_000;

/** The error records of a stream. */
const ERRORS = "@level>=error";

interface Props {
  range: Range;
  zone: string;
  onSearch: (q: string) => void;
}

/** The page before the first search: the streams of the range with their volume, and how to send logs. */
export default function Start({ range, zone, onSearch }: Props) {
  const cluster = useQuery({ ...clusterQuery, refetchInterval: 2_000 });
  const [wanted, setWanted] = useState("");
  const [all, setAll] = useState(false);
  const [sending, setSending] = useState(false);
  const limit = all ? STREAMS_MAX : STREAMS_FIRST;
  const streams = useQuery({ ...streamsQuery(range, limit), refetchInterval: AGAIN_MS });
  const { data } = streams;
  const found = useMemo(() => {
    const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
    return (data?.streams ?? []).filter(({ text }) => words.every((word) => text.toLowerCase().includes(word)));
  }, [data, wanted]);

  const empty = cluster.data !== undefined && isEmpty(cluster.data);
  useOnFirst(empty, () => onSearch(""));
  if (cluster.data !== undefined && empty) return <FirstVisit cluster={cluster.data} />;
  if (data === undefined) {
    if (streams.error === null) return <Loading />;
    return <Lost message={streams.error.message} onRetry={() => streams.refetch()} />;
  }
  const records = data.streams.reduce((sum, stream) => sum + stream.records, 0);
  const listedAll = data.streams.length >= data.distinct;
  const about = data.approximate === true ? "about " : "";
  const when = rangeName(range, (iso) => short(iso, zone, Date.now())).toLowerCase();
  return (
    <div className={styles.page}>
      <div className={styles.bar}>
        <h2>
          {data.cut === true ? "at least " : ""}
          {plural(data.distinct, "stream")}{" "}
          <small>
            {when} · {about}
            {plural(records, "record")}
            {listedAll ? "" : ` in the ${count(data.streams.length)} largest`}
          </small>
        </h2>
        <input
          className={controls.field}
          type="search"
          aria-label="Find a stream"
          placeholder="Find a stream"
          value={wanted}
          onChange={(event) => {
            setWanted(event.target.value);
            // A stream is found among all of them.
            setAll(true);
          }}
        />
        <Button icon="plus" aria-expanded={sending} on={sending} onClick={() => setSending(!sending)}>
          Send logs
        </Button>
      </div>
      {data.stats?.partial === true ? (
        <Notice kind="caution">
          <p>
            <b>Records may be missing.</b> {data.stats.partial_reasons.join("; ")}
          </p>
        </Notice>
      ) : undefined}
      {streams.error === null ? undefined : (
        <Notice kind="bad">
          <p>The node does not answer ({streams.error.message}). The figures are old.</p>
        </Notice>
      )}
      {sending && cluster.data !== undefined ? (
        <div className={styles.send}>
          <SendLogs cluster={cluster.data} />
        </div>
      ) : undefined}
      {found.length === 0 ? (
        <p className={styles.none}>
          {data.distinct === 0 ? "No stream has records in this range." : "No stream has this in its labels."}
        </p>
      ) : (
        <Streams streams={found} approximate={data.approximate === true} range={range} onSearch={onSearch} />
      )}
      {listedAll || all ? undefined : (
        <p className={styles.foot}>
          The {count(data.streams.length)} streams with the most records.{" "}
          <Button small onClick={() => setAll(true)}>
            List {data.distinct > STREAMS_MAX ? count(STREAMS_MAX) : "all"}
          </Button>
        </p>
      )}
    </div>
  );
}

interface StreamsProps {
  streams: readonly StreamFacts[];
  approximate: boolean;
  range: Range;
  onSearch: (q: string) => void;
}

/** A table of streams. Only those in view are counted, so that ten thousand are as fast as ten. */
function Streams({ streams, approximate, range, onSearch }: StreamsProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const list = useVirtualizer({
    count: streams.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: 4,
  });
  const items = list.getVirtualItems();
  const [first, last] = [items[0]?.index ?? 0, items.at(-1)?.index ?? 0];
  const chunks: string[][] = [];
  for (let at = first - (first % CHUNK); at <= last && streams.length > 0; at += CHUNK) {
    chunks.push(streams.slice(at, at + CHUNK).map(({ text }) => text));
  }
  const every = { refetchInterval: AGAIN_MS, staleTime: AGAIN_MS / 2 };
  const volumes = useQueries({ queries: chunks.map((chunk) => ({ ...volumeQuery(range, "", chunk), ...every })) });
  // Levels need the text of the records: they are counted after the volume.
  const errors = useQueries({
    queries: chunks.map((chunk, at) => ({
      ...volumeQuery(range, ERRORS, chunk),
      ...every,
      enabled: volumes[at]?.data !== undefined,
    })),
  });
  const of = (answers: typeof volumes, stream: string) => {
    for (const { data } of answers) {
      const found = data?.counts.get(stream);
      if (found !== undefined) return { counts: found, partial: data?.stats?.partial === true };
    }
    return undefined;
  };
  return (
    <div className={styles.table}>
      <div className={styles.head}>
        <span>Stream</span>
        <span>Records</span>
        <span>Size</span>
        <span>Errors</span>
        <span>Over time</span>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what can be scrolled must be reachable by keys */}
      <div ref={scroller} className={styles.scroller} tabIndex={0} data-testid="streams">
        <ul style={{ height: list.getTotalSize() }} className={styles.inner} aria-label="Streams">
          {items.map(({ index, start }) => {
            const stream = streams[index];
            return stream === undefined ? undefined : (
              <Stream
                key={stream.text}
                stream={stream}
                index={index}
                all={streams.length}
                top={start}
                approximate={approximate}
                range={range}
                volume={of(volumes, stream.text)}
                errors={of(errors, stream.text)}
                onSearch={onSearch}
              />
            );
          })}
        </ul>
      </div>
    </div>
  );
}

interface Counted {
  counts: readonly number[];
  partial: boolean;
}

interface StreamProps {
  stream: StreamFacts;
  index: number;
  all: number;
  top: number;
  approximate: boolean;
  range: Range;
  volume: Counted | undefined;
  errors: Counted | undefined;
  onSearch: (q: string) => void;
}

function Stream({ stream, index, all, top, approximate, range, volume, errors, onSearch }: StreamProps) {
  const q = streamTerm(stream.labels);
  const sum = (counted: Counted | undefined) => counted?.counts.reduce((sum, count) => sum + count, 0);
  const [exact, failed] = [sum(volume), sum(errors)];
  const records = exact ?? stream.records;
  const isAbout = exact === undefined ? approximate : volume?.partial === true;
  const link = (q: string) => ({
    href: writeState({ ...DEFAULT_STATE, q, range }),
    onClick: (event: MouseEvent) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey) return;
      event.preventDefault();
      onSearch(q);
    },
  });
  const labels = Object.entries(stream.labels);
  return (
    <li
      className={styles.row}
      style={{ transform: `translateY(${top}px)` }}
      aria-posinset={index + 1}
      aria-setsize={all}
      data-stream={stream.text}
    >
      <span className={styles.name}>
        <a {...link(q)} title={stream.text}>
          {labels.length === 0 ? "without labels" : undefined}
          {labels.map(([name, value]) => (
            <span key={name} className={styles.label}>
              <span className={styles.key}>{name}</span> {value}
            </span>
          ))}
        </a>
      </span>
      <span className={styles.number}>
        {isAbout ? "≈ " : ""}
        {count(records)}
      </span>
      <span className={styles.number}>
        {approximate ? "≈ " : ""}
        {bytes(stream.bytes)}
      </span>
      <span className={styles.number} data-testid="errors">
        {failed === undefined ? (
          <span className={styles.counting}>counting…</span>
        ) : failed === 0 ? (
          <span className={styles.zero}>{errors?.partial === true ? "≥ 0" : "0%"}</span>
        ) : (
          <a
            className={styles.errors}
            title={`${errors?.partial === true ? "at least " : ""}${plural(failed, "error")}`}
            {...link(`${q} ${ERRORS}`.trim())}
          >
            {errors?.partial === true ? "≥ " : ""}
            {share(failed, records)}
          </a>
        )}
      </span>
      <span className={styles.spark}>
        <Sparkline counts={volume?.counts} errors={errors?.counts} />
      </span>
    </li>
  );
}
