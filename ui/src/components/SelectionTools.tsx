import { useEffect, useState } from "react";
import { quoteText } from "../lib/expression.ts";
import { textTerm } from "../lib/terms.ts";
import type { Row } from "../worker/messages.ts";
import { Button } from "./controls.tsx";
import { copy } from "./copy.ts";
import styles from "./SelectionTools.module.css";

/** Maximum characters of a selection that can become a filter. */
const CHARS_MAX = 500;

interface Selected {
  text: string;
  /** The id of the record in the list; empty elsewhere. */
  record: string;
  left: number;
  top: number;
}

function selected(): Selected | undefined {
  const selection = getSelection();
  if (selection === null || selection.isCollapsed || selection.rangeCount === 0) return undefined;
  const range = selection.getRangeAt(0);
  const around = range.commonAncestorContainer;
  const element = around instanceof Element ? around : around.parentElement;
  if (element === null || element.closest("[role=option], [data-selectable]") === null) return undefined;
  const text = selection.toString();
  if (text.trim() === "" || text.includes("\n") || text.length > CHARS_MAX) return undefined;
  const { left, bottom } = range.getBoundingClientRect();
  const record = element.closest<HTMLElement>("[data-record]")?.dataset.record ?? "";
  return {
    text,
    record,
    left: Math.max(8, Math.min(left, innerWidth - 240)),
    top: Math.min(bottom + 6, innerHeight - 48),
  };
}

interface Props {
  rowOf: (id: string) => Row | undefined;
  onTerm: (term: string, without: boolean) => void;
}

/** Actions for text selected in a record. */
export function SelectionTools({ rowOf, onTerm }: Props) {
  const [found, setFound] = useState<Selected | undefined>();
  useEffect(() => {
    // The selection is final when the button or key is released.
    const look = () => setTimeout(() => setFound(selected()));
    const gone = () => {
      if (getSelection()?.isCollapsed !== false) setFound(undefined);
    };
    document.addEventListener("pointerup", look);
    document.addEventListener("keyup", look);
    document.addEventListener("selectionchange", gone);
    return () => {
      document.removeEventListener("pointerup", look);
      document.removeEventListener("keyup", look);
      document.removeEventListener("selectionchange", gone);
    };
  }, []);
  if (found === undefined) return undefined;
  // What is shown of a record may be written differently in it.
  const row = found.record === "" ? undefined : rowOf(found.record);
  const term = row === undefined ? quoteText(found.text) : textTerm(row.text, found.text);
  const use = (without: boolean) => {
    getSelection()?.removeAllRanges();
    setFound(undefined);
    if (term !== undefined) onTerm(term, without);
  };
  return (
    <div
      className={styles.tools}
      role="toolbar"
      aria-label="Selected text"
      style={{ left: found.left, top: found.top }}
    >
      <Button small icon="plus" disabled={term === undefined} onClick={() => use(false)}>
        Only with
      </Button>
      <Button small icon="minus" disabled={term === undefined} onClick={() => use(true)}>
        Without
      </Button>
      <Button small icon="copy" onClick={() => copy(found.text, "the text")}>
        Copy
      </Button>
    </div>
  );
}
