import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState } from "react";
import { fieldTerm } from "../lib/expression.ts";
import { fieldsOf } from "../lib/fields.ts";
import type { Highlighter } from "../lib/highlight.ts";
import { bytes, plural } from "../lib/numbers.ts";
import { full } from "../lib/times.ts";
import type { Row } from "../worker/messages.ts";
import { Context } from "./Context.tsx";
import { contextQuery } from "./contextQuery.ts";
import { Button, ColumnButton, IconButton } from "./controls.tsx";
import { copy } from "./copy.ts";
import { LogText } from "./LogText.tsx";
import list from "./RecordList.module.css";
import styles from "./RecordPanel.module.css";

/** Characters of a record shown until the user requests all. */
const FIRST_CHARS = 10_000;

export interface RecordActions {
  onTerm: (term: string, without: boolean) => void;
  onColumn: (name: string) => void;
  onOpen: (id: string) => void;
  onClose: () => void;
  onStep: (step: 1 | -1) => void;
  onLink: (id: string) => void;
}

interface Props extends RecordActions {
  id: string;
  /** The record, if the list has it. */
  row: Row | undefined;
  columns: readonly string[];
  utc: boolean;
  find: Highlighter;
}

/** One record with its text, labels, fields and context. */
export function RecordPanel(props: Props) {
  const { id, row, onClose } = props;
  const lookup = useQuery({ ...contextQuery(id, 0, 0), enabled: row === undefined });
  const record = row ?? lookup.data?.find((record) => record.id === id);
  const frame = useRef<HTMLElement>(null);
  return (
    <section
      ref={frame}
      className={styles.panel}
      aria-label="Record"
      tabIndex={-1}
      id="record"
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        event.stopPropagation();
        onClose();
      }}
    >
      {record === undefined ? (
        <>
          <header className={styles.head}>
            <h2>{lookup.isError ? "No such record" : "Looking for the record…"}</h2>
            <IconButton icon="close" name="Close" shortcut="Esc" onClick={onClose} />
          </header>
          <div className={styles.body}>{lookup.isError ? <p>{lookup.error.message}</p> : undefined}</div>
        </>
      ) : (
        <Whole key={record.id} {...props} record={record} />
      )}
    </section>
  );
}

function Whole(props: Props & { record: Row }) {
  const { record, utc, find, columns, onTerm, onColumn, onClose, onStep, onLink } = props;
  const [all, setAll] = useState(false);
  const [around, setAround] = useState(false);
  const fields = useMemo(() => fieldsOf(record.text), [record.text]);
  const labels = Object.entries(record.labels);
  useEffect(() => {
    const show = () => setAround(true);
    document.addEventListener("bucksaw:context", show);
    return () => document.removeEventListener("bucksaw:context", show);
  }, []);
  return (
    <>
      <header className={styles.head}>
        <h2>
          {record.level === undefined ? undefined : <span className={list[record.level]}>{record.level} · </span>}
          {full(record.time, utc)}
        </h2>
        <IconButton icon="up" name="Previous record" shortcut="k" onClick={() => onStep(-1)} />
        <IconButton icon="down" name="Next record" shortcut="j" onClick={() => onStep(1)} />
        <IconButton icon="close" name="Close" shortcut="Esc" onClick={onClose} />
      </header>
      <div className={styles.body}>
        {labels.length === 0 ? undefined : (
          <ul className={styles.labels} aria-label="Labels">
            {labels.map(([name, value]) => (
              <li key={name}>
                <button
                  type="button"
                  className={styles.label}
                  title="Only records with this label"
                  onClick={() => onTerm(fieldTerm(name, "=", value), false)}
                >
                  {name}={value}
                </button>
              </li>
            ))}
          </ul>
        )}
        <div className={styles.actions}>
          <Button small icon="copy" onClick={() => copy(record.text, "the record")}>
            Copy
          </Button>
          <Button small icon="copy" onClick={() => copy(asJson(record), "the record as JSON")}>
            JSON
          </Button>
          <Button small icon="link" onClick={() => onLink(record.id)}>
            Link
          </Button>
          <Button small icon="fields" on={around} aria-pressed={around} onClick={() => setAround(!around)}>
            Context
          </Button>
        </div>
        {around ? <Context record={record} utc={utc} find={find} onOpen={props.onOpen} /> : undefined}
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what can be scrolled must be reachable by keys */}
        <pre className={styles.text} tabIndex={0} data-selectable>
          <LogText text={record.text} find={find} most={all ? Number.POSITIVE_INFINITY : FIRST_CHARS} />
        </pre>
        {record.text.length > FIRST_CHARS && !all ? (
          <p className={styles.note}>
            The first {bytes(FIRST_CHARS)} of {bytes(record.text.length)}.{" "}
            <Button small onClick={() => setAll(true)}>
              Show all
            </Button>
          </p>
        ) : undefined}
        {record.binary ? (
          <p className={styles.note}>
            Some bytes are not UTF-8: each is shown as �. The download has them as they came.
          </p>
        ) : undefined}
        {record.cut ? (
          <p className={styles.note}>
            This record was cut for its length; it continues in the next record of its stream.
          </p>
        ) : undefined}
        {fields.length === 0 ? undefined : (
          <>
            <h3 className={styles.heading}>
              Fields <small>{plural(fields.length, "field")}</small>
            </h3>
            <table className={styles.fields}>
              <tbody>
                {fields.map(({ name, value }) => (
                  <tr key={name}>
                    <th scope="row">{name}</th>
                    <td>
                      <div className={styles.value} data-selectable>
                        <LogText text={value} find={find} most={all ? Number.POSITIVE_INFINITY : 5_000} />
                      </div>
                    </td>
                    <td className={styles.tools}>
                      <Tools
                        name={name}
                        value={value}
                        shown={columns.includes(name)}
                        onTerm={onTerm}
                        onColumn={onColumn}
                      />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </>
        )}
      </div>
    </>
  );
}

interface ToolsProps extends Pick<RecordActions, "onTerm" | "onColumn"> {
  name: string;
  value: string;
  shown: boolean;
}

function Tools({ name, value, shown, onTerm, onColumn }: ToolsProps) {
  const term = fieldTerm(name, "=", value);
  return (
    <>
      <IconButton small icon="plus" name={`Only with this ${name}`} onClick={() => onTerm(term, false)} />
      <IconButton small icon="minus" name={`Without this ${name}`} onClick={() => onTerm(term, true)} />
      <ColumnButton name={name} shown={shown} onColumn={onColumn} />
    </>
  );
}

/** The record as a JSON object of the API. */
function asJson({ id, time, labels, text }: Row): string {
  return JSON.stringify({ id, time, labels, line: text }, undefined, 2);
}
