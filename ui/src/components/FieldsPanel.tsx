import { useState } from "react";
import type { FieldFacts } from "../lib/complete.ts";
import { fieldTerm } from "../lib/expression.ts";
import { count, plural, share } from "../lib/numbers.ts";
import type { FieldsAnswer } from "../state/useSearch.ts";
import { ColumnButton, controls, IconButton } from "./controls.tsx";
import styles from "./FieldsPanel.module.css";
import { Icon } from "./Icon.tsx";
import { LogText } from "./LogText.tsx";

interface Props {
  answer: FieldsAnswer | undefined;
  problem: string | undefined;
  columns: readonly string[];
  onTerm: (term: string, without: boolean) => void;
  onColumn: (name: string) => void;
  onClose: () => void;
}

/** Labels and fields of the answer with their most frequent values. */
export function FieldsPanel({ answer, problem, columns, onTerm, onColumn, onClose }: Props) {
  const [wanted, setWanted] = useState("");
  const fields = (answer?.fields ?? []).filter(({ name }) => name.toLowerCase().includes(wanted.toLowerCase()));
  return (
    <section className={styles.panel} aria-label="Fields" id="fields">
      <header className={styles.head}>
        <h2>Fields</h2>
        <IconButton small icon="close" name="Hide the fields" shortcut="f" onClick={onClose} />
      </header>
      <div className={styles.find}>
        <input
          className={controls.field}
          type="search"
          aria-label="Find a field"
          placeholder="Find a field"
          value={wanted}
          onChange={(event) => setWanted(event.target.value)}
        />
      </div>
      <div className={styles.list}>
        {(["label", "field"] as const).map((kind) => {
          const some = fields.filter((field) => field.kind === kind);
          return some.length === 0 ? undefined : (
            <section key={kind}>
              <h3 className={styles.kind}>{kind === "label" ? "Labels" : "Fields of records"}</h3>
              {some.map((field) => (
                <Field
                  key={field.name}
                  field={field}
                  records={answer?.records ?? 0}
                  shown={columns.includes(field.name)}
                  onTerm={onTerm}
                  onColumn={onColumn}
                />
              ))}
            </section>
          );
        })}
        <p className={styles.note}>{problem ?? described(answer)}</p>
      </div>
    </section>
  );
}

function described(answer: FieldsAnswer | undefined): string {
  if (answer === undefined) return "Loading…";
  if (answer.records === 0) return "No record matches.";
  if (answer.fields.length === 0) return "The records have neither labels nor fields.";
  return answer.sampled
    ? `From the newest ${plural(answer.records, "match", "matches")}.`
    : `From all ${plural(answer.records, "match", "matches")}.`;
}

interface FieldProps extends Pick<Props, "onTerm" | "onColumn"> {
  field: FieldFacts;
  records: number;
  shown: boolean;
}

function Field({ field, records, shown, onTerm, onColumn }: FieldProps) {
  const [open, setOpen] = useState(false);
  const { name, distinct, values } = field;
  const distinctNote =
    distinct === null ? "more distinct values than were counted" : plural(distinct, "different value");
  return (
    <>
      <div className={styles.field}>
        <button
          type="button"
          className={styles.name}
          aria-expanded={open}
          onClick={() => setOpen(!open)}
          title={`${name}: ${distinctNote}`}
        >
          <Icon name={open ? "down" : "right"} />
          <span>{name}</span>
          <small className={styles.share}>{share(field.records, records)}</small>
        </button>
        <ColumnButton name={name} shown={shown} onColumn={onColumn} />
      </div>
      {open ? (
        <ul className={styles.values} aria-label={`Values of ${name}`}>
          {values.slice(0, 10).map((value) => {
            const term = fieldTerm(name, "=", value.value);
            return (
              <li key={value.value} className={styles.value}>
                <button type="button" title={`Only ${term}`} onClick={() => onTerm(term, false)}>
                  <span className={styles.line}>
                    <b>
                      <LogText text={value.value === "" ? "(empty)" : value.value} find={() => []} most={120} />
                    </b>
                    <small className={styles.share} title={`${count(value.count)} records`}>
                      {share(value.count, records)}
                    </small>
                  </span>
                  <span className={styles.bar}>
                    <i style={{ transform: `scaleX(${value.count / Math.max(records, 1)})` }} />
                  </span>
                </button>
                <IconButton
                  small
                  icon="minus"
                  name={`Without ${value.value.slice(0, 40)}`}
                  onClick={() => onTerm(term, true)}
                />
              </li>
            );
          })}
          <li className={styles.share}>{distinctNote}</li>
        </ul>
      ) : undefined}
    </>
  );
}
