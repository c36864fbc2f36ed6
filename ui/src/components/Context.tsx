import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Highlighter } from "../lib/highlight.ts";
import { clock } from "../lib/times.ts";
import type { Row } from "../worker/messages.ts";
import { contextQuery } from "./contextQuery.ts";
import { Button } from "./controls.tsx";
import { LogText } from "./LogText.tsx";
import styles from "./RecordPanel.module.css";

/** Records on each side at first, how many more each time, and the node's limit. */
const FIRST = 8;
const MORE = 40;
const MOST = 1_000;

interface Props {
  record: Row;
  utc: boolean;
  find: Highlighter;
  onOpen: (id: string) => void;
}

/** The records before and after a record in its stream, whether they match or not. */
export function Context({ record, utc, find, onOpen }: Props) {
  const [before, setBefore] = useState(FIRST);
  const [after, setAfter] = useState(FIRST);
  const { data, error, isFetching } = useQuery(contextQuery(record.id, before, after));
  const at = data?.findIndex((row) => row.id === record.id) ?? 0;
  const first = data !== undefined && at < before;
  const last = data !== undefined && data.length - at - 1 < after;
  return (
    <section aria-label="Context" aria-busy={isFetching}>
      <h3 className={styles.heading}>
        Context <small>the same stream, oldest first</small>
      </h3>
      {error === null ? undefined : <p role="alert">{error.message}</p>}
      <div className={styles.context}>
        <div className={styles.further}>
          {first ? (
            <p className={styles.note}>The stream begins here.</p>
          ) : (
            <Button small look="bare" icon="up" disabled={before >= MOST} onClick={() => setBefore(before + MORE)}>
              Earlier
            </Button>
          )}
        </div>
        <ol>
          {(data ?? [record]).map((row) => (
            <li key={row.id}>
              <button
                type="button"
                className={styles.near}
                aria-current={row.id === record.id}
                onClick={() => onOpen(row.id)}
              >
                <time>{clock(row.time, utc)}</time>
                <span>
                  <LogText text={row.text} find={find} most={1_500} />
                </span>
              </button>
            </li>
          ))}
        </ol>
        <div className={styles.further}>
          {last ? (
            <p className={styles.note}>No more so far.</p>
          ) : (
            <Button small look="bare" icon="down" disabled={after >= MOST} onClick={() => setAfter(after + MORE)}>
              Later
            </Button>
          )}
        </div>
      </div>
    </section>
  );
}
