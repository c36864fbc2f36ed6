import { memo } from "react";
import { type Hit, pieces } from "../lib/display.ts";
import { cx } from "./cx.ts";
import styles from "./LogText.module.css";

interface Props {
  text: string;
  find: (text: string) => Hit[];
  /** Maximum characters shown. */
  most: number;
  /** The match that the user has jumped to. */
  current?: Hit | undefined;
}

/** Log text with terminal colours and highlighted matches; invisible characters are named. Creates text nodes only. */
export const LogText = memo(function LogText({ text, find, most, current }: Props) {
  const shown = text.length > most ? text.slice(0, most) : text;
  const list = pieces(shown, find(shown));
  return list.map((piece, at) => {
    const classes = piece.style.split(" ").map((name) => styles[name]);
    const name = cx(...classes, piece.hit && styles.hit, piece.kind === "mark" && styles.unseen);
    // The pieces of one text keep their order, so their index is a stable key.
    const key = `${at}`;
    if (name === "" && !piece.hit) return piece.text;
    const isCurrent = current !== undefined && piece.at >= current[0] && piece.at < current[1];
    return piece.hit ? (
      <mark key={key} className={name} data-current={isCurrent ? true : undefined}>
        {piece.text}
      </mark>
    ) : (
      <span key={key} className={name} title={piece.kind === "mark" ? "a character that cannot be seen" : undefined}>
        {piece.text}
      </span>
    );
  });
});
