import { Dialog } from "@base-ui/react/dialog";
import { Button, controls } from "./controls.tsx";
import styles from "./Help.module.css";

const KEYS: readonly [name: string, keys: readonly (readonly [keys: string, what: string])[]][] = [
  [
    "Search",
    [
      ["/", "go to the search box"],
      ["↓ ↑ Enter", "choose a completion, or run the search"],
      ["Esc", "close what is open"],
      ["r", "search again"],
      ["e", "set the time range"],
      ["[ ] z", "earlier, later, zoom out"],
    ],
  ],
  [
    "Records",
    [
      ["j k ↓ ↑", "next, previous"],
      ["Enter", "open the record"],
      ["x", "the records around this one, in the list"],
      [". ,", "next and previous match in the record"],
      ["Home End", "first, last"],
      ["w", "wrap lines"],
      ["o", "newest first, oldest first"],
    ],
  ],
  [
    "Page",
    [
      ["t", "follow new records"],
      ["p", "pause and resume following"],
      ["f", "fields"],
      ["h", "fold the histogram"],
      ["c", "copy a link, with fixed times"],
      ["s", "saved searches"],
      ["n", "nodes, and back"],
      ["?", "this help"],
    ],
  ],
];

const FORMS: readonly (readonly [form: string, what: string])[] = [
  ["timeout", "contains these bytes"],
  ['"connection refused"', "text with spaces, in quotes"],
  ['"timeout"i', "ignores case"],
  ["/time(d)? ?out/i", "a regex"],
  ["a b   a AND b", "both"],
  ["a OR b", "either; AND binds tighter"],
  ["-a   NOT a", "not"],
  ["(a OR b) c", "groups"],
  ["@level>=warn   @level=none", "the level of the record, wherever it stands"],
  ["app=shop   app!=shop", "a label or field equals, or does not"],
  ["user=*", "the field exists"],
  ["status>=500", "compares numbers, sizes and durations"],
  ["path=~/^.api/   path!~/…/", "matches a regex, or does not"],
  ["user.id=42", "nested fields of JSON"],
];

/** Keyboard shortcuts and the syntax of filters. */
export default function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog.Root open onOpenChange={(open) => !open && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className={styles.backdrop} />
        <Dialog.Popup className={styles.popup}>
          <div className={styles.head}>
            <Dialog.Title>Help</Dialog.Title>
            <Dialog.Close render={<Button look="bare" icon="close" aria-label="Close" />} />
          </div>
          <div className={styles.columns}>
            <div>
              {KEYS.map(([name, keys]) => (
                <section key={name}>
                  <h3>{name}</h3>
                  <table className={styles.table}>
                    <tbody>
                      {keys.map(([key, what]) => (
                        <tr key={key}>
                          <td>
                            {key.split(" ").map((one) => (
                              <kbd key={one} className={controls.kbd}>
                                {one}
                              </kbd>
                            ))}
                          </td>
                          <td>{what}</td>
                        </tr>
                      ))}
                    </tbody>
                  </table>
                </section>
              ))}
            </div>
            <div>
              <h3>Filters</h3>
              <table className={styles.table}>
                <tbody>
                  {FORMS.map(([form, what]) => (
                    <tr key={form}>
                      <td>
                        <code>{form}</code>
                      </td>
                      <td>{what}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
              <h3>Mouse</h3>
              <p>
                Drag over the histogram to zoom in, click a bar to zoom in, or a level to filter by it. Select text in a
                record to search for it, or to exclude it.
              </p>
              <h3>Command line and API</h3>
              <p>
                <code>bucksaw query</code> and <code>bucksaw tail</code> take the same filters, and so does the{" "}
                <a href="/api/v1">HTTP API</a>.
              </p>
            </div>
          </div>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
