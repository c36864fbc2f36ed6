import { useMemo, useState } from "react";
import { fieldsOf, type TreeNode } from "../lib/fields.ts";
import type { Highlighter } from "../lib/highlight.ts";
import { plural } from "../lib/numbers.ts";
import { recordTerm, searchedText, textTerm } from "../lib/terms.ts";
import type { Row } from "../worker/messages.ts";
import { ColumnButton, IconButton } from "./controls.tsx";
import { cx } from "./cx.ts";
import styles from "./FieldTree.module.css";
import { Icon } from "./Icon.tsx";
import { LogText } from "./LogText.tsx";

interface Props {
  record: Row;
  nodes: readonly TreeNode[];
  columns: readonly string[];
  find: Highlighter;
  /** Maximum characters shown of a value. */
  most: number;
  onTerm: (term: string, without: boolean) => void;
  onColumn: (name: string) => void;
}

/** Fields or attributes of a record as a tree of rows, each with its actions. */
export function FieldTree(props: Props) {
  const [folded, setFolded] = useState<ReadonlySet<string>>(new Set());
  const toggle = (name: string) => {
    const next = new Set(folded);
    if (!next.delete(name)) next.add(name);
    setFolded(next);
  };
  // Keys that contain dots can give two rows one name.
  const rows: { node: TreeNode; depth: number; key: string }[] = [];
  const visit = (nodes: readonly TreeNode[], depth: number) => {
    for (const node of nodes) {
      rows.push({ node, depth, key: `${rows.length} ${node.name}` });
      if (!folded.has(node.name)) visit(node.members, depth + 1);
    }
  };
  visit(props.nodes, 0);
  const { text, attributes } = props.record;
  // An attribute comes before a key of the line.
  const known = useMemo(() => {
    const keys = fieldsOf(text).map(({ name, value }) => [name, value] as const);
    return new Map([...keys, ...Object.entries(attributes ?? {})]);
  }, [text, attributes]);
  return (
    <table className={styles.fields}>
      <tbody>
        {rows.map(({ node, depth, key }) =>
          node.kind === "object" || node.kind === "array" ? (
            <tr key={key}>
              <th scope="row" colSpan={3} className={styles[`depth-${Math.min(depth, 6)}`]}>
                <button
                  type="button"
                  className={styles.toggle}
                  aria-expanded={!folded.has(node.name)}
                  onClick={() => toggle(node.name)}
                >
                  <Icon name={folded.has(node.name) ? "right" : "down"} />
                  {node.key}
                  <small>{node.kind === "array" ? `[${node.value}]` : plural(Number(node.value), "field")}</small>
                </button>
              </th>
            </tr>
          ) : (
            <Leaf key={key} {...props} known={known} node={node} depth={depth} />
          ),
        )}
      </tbody>
    </table>
  );
}

function Leaf({
  record,
  known,
  node,
  depth,
  columns,
  find,
  most,
  onTerm,
  onColumn,
}: Props & { known: ReadonlyMap<string, string>; node: TreeNode; depth: number }) {
  const { key, name, kind, value } = node;
  // Of equal names only the last value is compared.
  const term = known.get(name) === value ? recordTerm(record, name, value) : textTerm(searchedText(record), value);
  const why = term === undefined ? " is not possible: its text has no bytes to search for" : "";
  return (
    <tr>
      <th scope="row" className={styles[`depth-${Math.min(depth, 6)}`]} title={name}>
        {key}
      </th>
      <td>
        <div className={cx(styles.value, styles[kind])} data-selectable>
          <LogText text={value} find={find} most={most} />
        </div>
      </td>
      <td className={styles.tools}>
        <IconButton
          small
          icon="plus"
          name={`Only with this ${name}${why}`}
          disabled={term === undefined}
          onClick={() => term !== undefined && onTerm(term, false)}
        />
        <IconButton
          small
          icon="minus"
          name={`Without this ${name}${why}`}
          disabled={term === undefined}
          onClick={() => term !== undefined && onTerm(term, true)}
        />
        <ColumnButton name={name} shown={columns.includes(name)} onColumn={onColumn} />
      </td>
    </tr>
  );
}
