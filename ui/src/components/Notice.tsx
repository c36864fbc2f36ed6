import type { ReactNode } from "react";
import { cx } from "./cx.ts";
import styles from "./Notice.module.css";

/** Something that a reader of the records must know. */
export function Notice({ kind, children }: { kind: "caution" | "bad" | "calm"; children: ReactNode }) {
  return (
    <div role={kind === "bad" ? "alert" : "status"} className={cx(styles.notice, kind !== "caution" && styles[kind])}>
      {children}
    </div>
  );
}
