import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState } from "react";
import type { Hit } from "../lib/display.ts";
import { attributeNodes, type TreeNode, treeOf } from "../lib/fields.ts";
import type { Highlighter } from "../lib/highlight.ts";
import { bytes, count, plural } from "../lib/numbers.ts";
import { messageKey } from "../lib/rowText.ts";
import { equals } from "../lib/terms.ts";
import { full } from "../lib/times.ts";
import type { Row } from "../worker/messages.ts";
import { contextQuery } from "./contextQuery.ts";
import { Button, IconButton } from "./controls.tsx";
import { copy } from "./copy.ts";
import { cx } from "./cx.ts";
import { FieldTree } from "./FieldTree.tsx";
import { LogText } from "./LogText.tsx";
import list from "./RecordList.module.css";
import styles from "./RecordPanel.module.css";

/** Characters of a record shown until the user requests all, and before a match that lies beyond them. */
const FIRST_CHARS = 10_000;
const BEFORE_MATCH = 1_000;

export interface RecordActions {
  onTerm: (term: string, without: boolean) => void;
  onColumn: (name: string) => void;
  onClose: () => void;
  onStep: (step: 1 | -1) => void;
  onLink: (id: string) => void;
  onContext: (row: Row) => void;
  /** Loads the list from this record on. */
  onShow: (id: string) => void;
}

interface Props extends RecordActions {
  id: string;
  /** The record, if the list has it. */
  row: Row | undefined;
  /** Whether the list shows it. */
  listed: boolean;
  /** Whether its context is shown. */
  around: boolean;
  columns: readonly string[];
  zone: string;
  find: Highlighter;
}

/** One record with its text, labels and fields. */
export function RecordPanel(props: Props) {
  const { id, row, onClose } = props;
  const lookup = useQuery({ ...contextQuery(id, 0, 0), enabled: row === undefined });
  const record = row ?? lookup.data?.find((record) => record.id === id);
  return (
    <section
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
  const { record, listed, around, zone, find, columns, onTerm, onColumn, onClose, onStep, onLink } = props;
  const nodes = useMemo(() => treeOf(record.text), [record.text]);
  const attributes = useMemo(() => attributeNodes(record), [record]);
  const labels = Object.entries(record.labels);
  const fields = useMemo(() => leaves(nodes), [nodes]);
  const isJson = /^\s*\{/.test(record.text);
  const key = isJson ? messageKey(nodes.filter(({ kind }) => kind === "text").map(({ name }) => name)) : undefined;
  const message = key === undefined ? undefined : nodes.find(({ name }) => name === key)?.value;
  return (
    <>
      <header className={styles.head}>
        <h2>
          {record.level === undefined ? undefined : <span className={list[record.level]}>{record.level} · </span>}
          {full(record.time, zone)}
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
                  onClick={() => onTerm(equals(name, value), false)}
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
          <Button
            small
            icon="around"
            on={around}
            aria-pressed={around}
            title="The records before and after it, in the list (x)"
            onClick={() => props.onContext(record)}
          >
            Context
          </Button>
          {listed ? undefined : (
            <Button small icon="fields" onClick={() => props.onShow(record.id)}>
              Show in the list
            </Button>
          )}
        </div>
        {message === undefined || message.trim() === "" ? undefined : (
          <div className={styles.message} data-selectable data-testid="message">
            <LogText text={message} find={find} most={FIRST_CHARS} />
          </div>
        )}
        {isJson && fields > 0 ? undefined : <Text record={record} find={find} heading={undefined} />}
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
        {attributes.length === 0 ? undefined : (
          <section aria-label="Attributes">
            <h3 className={styles.heading}>
              Attributes <small>{plural(attributes.length, "attribute")}</small>
            </h3>
            <FieldTree
              record={record}
              nodes={attributes}
              columns={columns}
              find={find}
              most={5_000}
              onTerm={onTerm}
              onColumn={onColumn}
            />
          </section>
        )}
        {fields === 0 ? undefined : (
          <section>
            <h3 className={styles.heading}>
              Fields <small>{plural(fields, "field")}</small>
            </h3>
            <FieldTree
              record={record}
              nodes={nodes}
              columns={columns}
              find={find}
              most={5_000}
              onTerm={onTerm}
              onColumn={onColumn}
            />
          </section>
        )}
        {isJson && fields > 0 ? <Text record={record} find={find} heading="As received" /> : undefined}
      </div>
    </>
  );
}

function leaves(nodes: readonly TreeNode[]): number {
  return nodes.reduce(
    (sum, { kind, members }) => sum + (kind === "object" || kind === "array" ? leaves(members) : 1),
    0,
  );
}

/** The text as received. Its matches are visited one after another, wherever they are. */
function Text({ record, find, heading }: { record: Row; find: Highlighter; heading: string | undefined }) {
  const { text } = record;
  const [all, setAll] = useState(false);
  const hits = useMemo(() => find(text), [find, text]);
  const [current, setCurrent] = useState(0);
  const [jumped, setJumped] = useState(false);
  const pre = useRef<HTMLPreElement>(null);
  const hit = hits[Math.min(current, hits.length - 1)];
  const start = all || hit === undefined || hit[1] <= FIRST_CHARS ? 0 : Math.max(0, hit[0] - BEFORE_MATCH);
  const most = all ? Number.POSITIVE_INFINITY : FIRST_CHARS;
  const end = Math.min(text.length, start + most);
  const shown: Hit | undefined = hit === undefined ? undefined : [hit[0] - start, hit[1] - start];

  const jump = (by: number) => {
    if (hits.length === 0) return;
    setJumped(true);
    setCurrent((current + by + hits.length) % hits.length);
  };
  const latest = useRef(jump);
  latest.current = jump;
  useEffect(() => {
    const onMatch = (event: Event) => latest.current((event as CustomEvent<number>).detail);
    document.addEventListener("bucksaw:match", onMatch);
    return () => document.removeEventListener("bucksaw:match", onMatch);
  }, []);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the match that is shown decides
  useEffect(() => {
    const mark = pre.current?.querySelector<HTMLElement>("[data-current]");
    if (mark == null || pre.current === null) return;
    if (jumped) pre.current.scrollIntoView({ block: "nearest" });
    pre.current.scrollTop = Math.max(0, mark.offsetTop - pre.current.clientHeight / 3);
  }, [current, jumped, start, hits]);
  return (
    <>
      {heading === undefined && hits.length < 2 ? undefined : (
        <div className={styles.bar}>
          <h3 className={styles.heading}>{heading ?? "Text"}</h3>
          {hits.length === 0 ? undefined : (
            <>
              <span data-testid="matches">
                {hits.length === 1 ? "1 match" : `match ${Math.min(current, hits.length - 1) + 1} of ${hits.length}`}
              </span>
              <IconButton small icon="up" name="Previous match" shortcut="," onClick={() => jump(-1)} />
              <IconButton small icon="down" name="Next match" shortcut="." onClick={() => jump(1)} />
            </>
          )}
        </div>
      )}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what can be scrolled must be reachable by keys */}
      <pre ref={pre} className={cx(styles.text, hits.length > 1 && styles.many)} tabIndex={0} data-selectable>
        <LogText text={start === 0 ? text : text.slice(start)} find={find} most={most} current={shown} />
      </pre>
      {end - start < text.length && !all ? (
        <p className={styles.note}>
          {start === 0
            ? `The first ${bytes(FIRST_CHARS)} of ${bytes(text.length)}.`
            : `Characters ${count(start + 1)} to ${count(end)} of ${count(text.length)}, around the match.`}{" "}
          <Button small onClick={() => setAll(true)}>
            Show all
          </Button>
        </p>
      ) : undefined}
    </>
  );
}

/** The record as a JSON object of the API. */
function asJson({ id, time, labels, text, attributes }: Row): string {
  return JSON.stringify({ id, time, labels, line: text, attributes }, undefined, 2);
}
