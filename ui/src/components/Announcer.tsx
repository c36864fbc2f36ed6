import { Store, useStore } from "../state/store.ts";
import styles from "./Announcer.module.css";

const said = new Store({ text: "" });
let timer: ReturnType<typeof setTimeout> | undefined;

/** Shows a short message for three seconds; screen readers read it. */
export function say(text: string) {
  said.change({ text });
  clearTimeout(timer);
  timer = setTimeout(() => said.change({ text: "" }), 3_000);
}

export function Announcer() {
  const { text } = useStore(said);
  return (
    <div role="status" className={styles.toast}>
      {text}
    </div>
  );
}
