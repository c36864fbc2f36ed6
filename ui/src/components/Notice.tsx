import type { ReactNode } from "react";
import { cx } from "./cx.ts";
import styles from "./Notice.module.css";

/** A notice above the records. */
export function Notice({ kind, children }: { kind: "caution" | "bad" | "calm"; children: ReactNode }) {
  return (
    <div role={kind === "bad" ? "alert" : "status"} className={cx(styles.notice, kind !== "caution" && styles[kind])}>
      {children}
    </div>
  );
}
