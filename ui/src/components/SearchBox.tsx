import { type KeyboardEvent, useEffect, useId, useMemo, useRef, useState } from "react";
import { type Completion, complete, type FieldFacts } from "../lib/complete.ts";
import { errorColumn } from "../lib/expression.ts";
import { remember } from "../state/preferences.ts";
import { Coloured } from "./Coloured.tsx";
import { IconButton } from "./controls.tsx";
import { cx } from "./cx.ts";
import { Icon } from "./Icon.tsx";
import styles from "./SearchBox.module.css";

/** Milliseconds without a key press before a search starts while the user types quickly. */
const PAUSE_MS = 40;

interface Props {
  q: string;
  fields: readonly FieldFacts[];
  history: readonly string[];
  problem: string | undefined;
  /** What the node says about a valid expression. */
  hints: readonly string[];
  /** `settled` after Enter, or when a completion was chosen. */
  onChange: (q: string, settled: boolean) => void;
  /** Called at each key press, before the pause. */
  onTyping: () => void;
  /** Called when the box is left, and after a pause. */
  onSettled: () => void;
}

/** Milliseconds without a key press after which a typed search is settled. */
const SETTLE_MS = 1_500;

/**
 * The box for filter expressions. It is a plain text area in front of the coloured text, so that every keyboard, language and
 * screen reader works. A code editor would be a third of the page's size for one line.
 */
export function SearchBox({ q, fields, history, problem, hints, onChange, onTyping, onSettled }: Props) {
  const [draft, setDraft] = useState(q);
  const [caret, setCaret] = useState(q.length);
  const [open, setOpen] = useState(false);
  const [active, setActive] = useState(-1);
  const input = useRef<HTMLTextAreaElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const pending = useRef<(() => void) | undefined>(undefined);
  const settling = useRef<ReturnType<typeof setTimeout>>(undefined);
  const typed = useRef(q);
  const changedAt = useRef(Number.NEGATIVE_INFINITY);
  const id = useId();

  useEffect(
    () => () => {
      clearTimeout(timer.current);
      clearTimeout(settling.current);
    },
    [],
  );

  // A change from outside, such as a click or the back button, replaces the typed text.
  useEffect(() => {
    if (q === typed.current) return;
    clearTimeout(timer.current);
    pending.current = undefined;
    typed.current = q;
    setDraft(q);
  }, [q]);

  const found = useMemo(
    () => (open ? complete(draft, caret, fields, history) : []),
    [open, draft, caret, fields, history],
  );
  const shown = open && found.length > 0;

  const change = (text: string, settled: boolean) => {
    clearTimeout(timer.current);
    const now = performance.now();
    const paused = now - changedAt.current > PAUSE_MS;
    changedAt.current = now;
    setDraft(text);
    onTyping();
    const tell = () => {
      pending.current = undefined;
      typed.current = text;
      onChange(text, settled);
    };
    clearTimeout(settling.current);
    if (!settled) settling.current = setTimeout(onSettled, SETTLE_MS);
    if (settled || paused) tell();
    else {
      pending.current = tell;
      timer.current = setTimeout(tell, PAUSE_MS);
    }
  };

  const settle = (text: string) => {
    setOpen(false);
    remember(text);
    change(text, true);
  };

  const choose = (completion: Completion) => {
    const before = draft.slice(0, completion.start) + completion.insert;
    const rest = draft.slice(completion.end).replace(completion.insert.endsWith(" ") ? /^ / : /^$/, "");
    const text = before + rest;
    setActive(-1);
    setOpen(completion.kind === "label" || completion.kind === "field" || completion.kind === "derived");
    setCaret(before.length);
    if (completion.kind === "history") settle(text);
    else change(text, false);
    requestAnimationFrame(() => {
      input.current?.focus();
      input.current?.setSelectionRange(before.length, before.length);
    });
  };

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return;
    const chosen = shown ? found[active] : undefined;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (!open) {
        setOpen(true);
        return;
      }
      const step = event.key === "ArrowDown" ? 1 : -1;
      setActive((at) => (found.length === 0 ? -1 : (at + step + found.length + 1) % (found.length + 1)));
    } else if ((event.key === "Enter" || event.key === "Tab") && chosen !== undefined && !event.shiftKey) {
      event.preventDefault();
      choose(chosen);
    } else if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      settle(draft);
    } else if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      if (shown) setOpen(false);
      else input.current?.blur();
    } else if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      setOpen(true);
    }
  };

  const column = problem === undefined ? undefined : errorColumn(problem);
  return (
    <div className={styles.whole}>
      <div className={cx(styles.box, problem !== undefined && styles.bad)}>
        <span className={styles.icon}>
          <Icon name="search" />
        </span>
        <div className={styles.colours} aria-hidden="true">
          <Coloured expression={draft} errorColumn={column} />
        </div>
        <textarea
          ref={input}
          id="search"
          className={styles.input}
          aria-label="Filter expression"
          aria-haspopup="listbox"
          aria-controls={`${id}list`}
          aria-autocomplete="list"
          aria-activedescendant={shown && active >= 0 ? `${id}${active}` : undefined}
          aria-invalid={problem !== undefined}
          aria-describedby={problem === undefined ? undefined : `${id}problem`}
          rows={1}
          spellCheck={false}
          autoCapitalize="off"
          autoCorrect="off"
          autoComplete="off"
          placeholder='Search: timeout, "connection refused", @level>=warn, status>=500'
          value={draft}
          onChange={(event) => {
            const text = event.target.value.replace(/[\r\n]+/g, " ");
            setOpen(true);
            setActive(-1);
            setCaret(event.target.selectionStart);
            change(text, false);
          }}
          onSelect={(event) => setCaret(event.currentTarget.selectionStart)}
          onFocus={() => setActive(-1)}
          onMouseDown={() => setOpen(true)}
          onBlur={() => {
            setOpen(false);
            clearTimeout(timer.current);
            clearTimeout(settling.current);
            pending.current?.();
            onSettled();
          }}
          onKeyDown={onKeyDown}
        />
        {draft === "" ? undefined : (
          <IconButton small icon="close" name="Clear the filter" className={styles.clear} onClick={() => settle("")} />
        )}
        <div className={styles.list} id={`${id}list`} role="listbox" aria-label="Completions" hidden={!shown}>
          {found.map((completion, at) => (
            // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are those of the box, which keeps the focus
            // biome-ignore lint/a11y/useFocusableInteractive: as above
            <div
              key={`${completion.kind} ${completion.label}`}
              id={`${id}${at}`}
              className={styles.option}
              role="option"
              aria-selected={at === active}
              onMouseDown={(event) => event.preventDefault()}
              onClick={() => choose(completion)}
            >
              <span className={styles.what}>{completion.label}</span>
              <span className={styles.kind}>{completion.kind}</span>
              <span className={styles.detail}>{completion.detail}</span>
            </div>
          ))}
        </div>
      </div>
      {/* Its line has a place of its own: neither an error nor a hint moves what is below. */}
      {problem === undefined ? (
        <p className={styles.hint} role="status" data-testid="hints" title={hints.join("\n")}>
          {hints.join(" · ")}
        </p>
      ) : (
        <p className={cx(styles.problem, "problem")} id={`${id}problem`} role="alert" title={problem}>
          {problem.replace(/^q: /, "")}
        </p>
      )}
    </div>
  );
}
