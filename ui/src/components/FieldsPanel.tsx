import { memo, useMemo, useState } from "react";
import type { FieldCount, FieldFacts } from "../lib/complete.ts";
import { type FieldGroup, groupFields, isOdd } from "../lib/fieldGroups.ts";
import { noHits } from "../lib/highlight.ts";
import { count, plural, share, short } from "../lib/numbers.ts";
import { existsTerm, valueTerm } from "../lib/terms.ts";
import type { FieldsAnswer } from "../state/useSearch.ts";
import { ColumnButton, controls, IconButton } from "./controls.tsx";
import { cx } from "./cx.ts";
import styles from "./FieldsPanel.module.css";
import { Icon } from "./Icon.tsx";
import { LogText } from "./LogText.tsx";

/** Values shown of a field. */
const VALUES_MAX = 10;

interface Props {
  answer: FieldsAnswer | undefined;
  problem: string | undefined;
  columns: readonly string[];
  onTerm: (term: string, without: boolean) => void;
  onColumn: (name: string) => void;
  onClose: () => void;
}

/** Labels and fields of the answer with their most frequent values. Its many buttons are not rendered again at each key. */
export const FieldsPanel = memo(function FieldsPanel({ answer, problem, columns, onTerm, onColumn, onClose }: Props) {
  const [wanted, setWanted] = useState("");
  const [odd, setOdd] = useState(false);
  const all = answer?.fields ?? [];
  const records = answer?.records ?? 0;
  const found = all.filter(({ name }) => name.toLowerCase().includes(wanted.toLowerCase()));
  const of = (kind: FieldFacts["kind"]) => found.filter((field) => field.kind === kind);
  const fields = of("field");
  // A search finds all names.
  const hidden = wanted === "" ? fields.filter((field) => isOdd(field, records)) : [];
  const shown = fields.filter((field) => !hidden.includes(field));
  const one = (field: FieldFacts, label = field.name) => (
    <Field
      key={`${field.kind} ${field.name}`}
      field={field}
      label={label}
      all={all}
      records={records}
      shown={columns.includes(field.name)}
      onTerm={onTerm}
      onColumn={onColumn}
    />
  );
  const derived = of("derived");
  const labels = of("label");
  const attributes = of("attribute");
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
        {derived.map((field) => one(field))}
        {labels.length === 0 ? undefined : (
          <section>
            <h3 className={styles.kind}>Labels</h3>
            {labels.map((field) => one(field))}
          </section>
        )}
        {attributes.length === 0 ? undefined : (
          <section>
            <h3 className={styles.kind}>Attributes</h3>
            <Groups fields={attributes} one={one} />
          </section>
        )}
        {shown.length === 0 ? undefined : (
          <section>
            <h3 className={styles.kind}>Fields of records</h3>
            <Groups fields={shown} one={one} />
          </section>
        )}
        {hidden.length === 0 ? undefined : (
          <section>
            <button type="button" className={styles.more} aria-expanded={odd} onClick={() => setOdd(!odd)}>
              <Icon name={odd ? "down" : "right"} />
              {plural(hidden.length, "rare or odd name")}
            </button>
            {odd ? hidden.map((field) => one(field)) : undefined}
          </section>
        )}
        <p className={styles.note}>{problem ?? described(answer)}</p>
      </div>
    </section>
  );
});

function described(answer: FieldsAnswer | undefined): string {
  if (answer === undefined) return "Loading…";
  if (answer.records === 0) return "No record matches.";
  if (answer.fields.length === 0) return "The records have neither labels, attributes nor fields.";
  return answer.sampled
    ? `From the newest ${plural(answer.records, "match", "matches")}.`
    : `From all ${plural(answer.records, "match", "matches")}.`;
}

interface GroupsProps {
  fields: readonly FieldFacts[];
  one: (field: FieldFacts, label?: string) => React.ReactNode;
}

/** Fields as a tree by the dots of their names. */
function Groups({ fields, one }: GroupsProps) {
  const groups = useMemo(() => groupFields(fields), [fields]);
  return <Tree groups={groups} one={one} />;
}

function Tree({ groups, one }: { groups: readonly FieldGroup[]; one: GroupsProps["one"] }) {
  return groups.map((group) =>
    group.members.length === 0 && group.field !== undefined ? (
      one(group.field, group.label)
    ) : (
      <Branch key={group.prefix} group={group} one={one} />
    ),
  );
}

function Branch({ group, one }: { group: FieldGroup; one: GroupsProps["one"] }) {
  const [open, setOpen] = useState(true);
  return (
    <>
      {group.field === undefined ? undefined : one(group.field, group.label)}
      <button
        type="button"
        className={styles.branch}
        aria-expanded={open}
        title={`Fields that begin with ${group.prefix}.`}
        onClick={() => setOpen(!open)}
      >
        <Icon name={open ? "down" : "right"} />
        {group.label}.<small>{group.members.length}</small>
      </button>
      {open ? (
        <div className={styles.members}>
          <Tree groups={group.members} one={one} />
        </div>
      ) : undefined}
    </>
  );
}

interface FieldProps extends Pick<Props, "onTerm" | "onColumn"> {
  field: FieldFacts;
  label: string;
  all: readonly FieldFacts[];
  records: number;
  shown: boolean;
}

function Field({ field, label, all, records, shown, onTerm, onColumn }: FieldProps) {
  const [open, setOpen] = useState(false);
  const { name, distinct, values, numbers } = field;
  const distinctNote =
    distinct === null ? "more distinct values than were counted" : plural(distinct, "different value");
  const exists = existsTerm(field, all);
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
          <span>{label}</span>
          <small className={styles.share}>{share(field.records, records)}</small>
        </button>
        <ColumnButton name={name} shown={shown} onColumn={onColumn} />
      </div>
      {open ? (
        <ul className={styles.values} aria-label={`Values of ${name}`}>
          {numbers === undefined ? undefined : (
            <li className={styles.numbers} data-testid="numbers">
              {(["min", "avg", "max"] as const).map((what) => (
                <span key={what}>
                  {what} <b>{short(numbers[what])}</b>
                </span>
              ))}
            </li>
          )}
          {values.slice(0, VALUES_MAX).map((value) => (
            <Value
              key={`${value.value} ${value.cut === true}`}
              value={value}
              term={valueTerm(field, value, all)}
              records={records}
              onTerm={onTerm}
            />
          ))}
          <li className={styles.last}>
            {distinctNote}
            {exists === undefined ? undefined : (
              <button
                type="button"
                className={styles.any}
                title={`Only ${exists}`}
                onClick={() => onTerm(exists, false)}
              >
                any value
              </button>
            )}
          </li>
        </ul>
      ) : undefined}
    </>
  );
}

interface ValueProps {
  value: FieldCount;
  /** Missing if no term finds the value. */
  term: string | undefined;
  records: number;
  onTerm: (term: string, without: boolean) => void;
}

function Value({ value, term, records, onTerm }: ValueProps) {
  const unusable = term === undefined ? "A label of the same name comes first in filters" : undefined;
  return (
    <li className={styles.value}>
      <button
        type="button"
        title={unusable ?? `Only ${term}`}
        disabled={term === undefined}
        data-term={term}
        onClick={() => term !== undefined && onTerm(term, false)}
      >
        <span className={styles.line}>
          <b>
            <LogText text={value.value === "" ? "(empty)" : value.value} find={noHits} most={120} />
            {value.cut === true ? "…" : ""}
          </b>
          <small className={cx(styles.share)} title={`${count(value.count)} records`}>
            {share(value.count, records)}
          </small>
        </span>
        <span className={styles.bar}>
          <i style={{ transform: `scaleX(${Math.min(1, value.count / Math.max(records, 1))})` }} />
        </span>
      </button>
      <IconButton
        small
        icon="minus"
        name={`Without ${value.value.slice(0, 40)}`}
        disabled={term === undefined}
        onClick={() => term !== undefined && onTerm(term, true)}
      />
    </li>
  );
}
