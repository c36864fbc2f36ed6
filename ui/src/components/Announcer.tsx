import { Store, useStore } from "../state/store.ts";
import styles from "./Announcer.module.css";

const announcement = new Store({ text: "" });
let timer: ReturnType<typeof setTimeout> | undefined;

/** Shows a short message for three seconds; screen readers read it. */
export function say(text: string) {
  announcement.change({ text });
  clearTimeout(timer);
  timer = setTimeout(() => announcement.change({ text: "" }), 3_000);
}

export function Announcer() {
  const { text } = useStore(announcement);
  return (
    <div role="status" className={styles.toast}>
      {text}
    </div>
  );
}
