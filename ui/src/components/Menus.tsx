import { Menu } from "@base-ui/react/menu";
import { Popover } from "@base-ui/react/popover";
import { memo, useState } from "react";
import { readState, writeState } from "../lib/url.ts";
import { go, pageState } from "../state/page.ts";
import { forget, save, usePreferences } from "../state/preferences.ts";
import { pinned } from "../state/session.ts";
import { callUrl } from "../state/streams.ts";
import { say } from "./Announcer.tsx";
import { Button, controls, IconButton } from "./controls.tsx";
import { cx } from "./cx.ts";
import { Icon } from "./Icon.tsx";
import styles from "./Menus.module.css";

/** Named searches, stored in this browser. */
export const SavedMenu = memo(function SavedMenu({ open, onOpen }: { open: boolean; onOpen: (open: boolean) => void }) {
  const { saved } = usePreferences();
  const [name, setName] = useState("");
  const keep = () => {
    const given = name.trim() === "" ? pageState().q.trim() || "everything" : name.trim();
    save(given, writeState({ ...pageState(), record: "" }));
    setName("");
    say(`Saved “${given}”`);
  };
  return (
    <Popover.Root open={open} onOpenChange={onOpen}>
      <Popover.Trigger render={<Button icon="star" aria-label="Saved searches" title="Saved searches (s)" />} />
      <Popover.Portal>
        <Popover.Positioner sideOffset={4} align="end" className={controls.layer}>
          <Popover.Popup className={cx(controls.popup, styles.popup)} aria-label="Saved searches">
            <form
              className={styles.save}
              onSubmit={(event) => {
                event.preventDefault();
                keep();
              }}
            >
              <input
                className={controls.field}
                aria-label="Name of this search"
                placeholder="Name of this search"
                value={name}
                onChange={(event) => setName(event.target.value)}
              />
              <Button type="submit" look="primary">
                Save
              </Button>
            </form>
            {saved.length === 0 ? (
              <p className={styles.none}>No saved searches. Searches are saved in this browser.</p>
            ) : (
              <ul aria-label="Saved">
                {saved.map(({ name, address }) => (
                  <li key={name} className={styles.saved}>
                    <button
                      type="button"
                      className={controls.item}
                      onClick={() => {
                        const url = new URL(address, location.origin);
                        go(readState(url.pathname, url.search));
                        onOpen(false);
                      }}
                    >
                      <span className={styles.names}>
                        {name}
                        <small>{new URL(address, location.origin).searchParams.get("q") ?? "no filter"}</small>
                      </span>
                    </button>
                    <IconButton icon="trash" name={`Forget ${name}`} onClick={() => forget(name)} />
                  </li>
                ))}
              </ul>
            )}
          </Popover.Popup>
        </Popover.Positioner>
      </Popover.Portal>
    </Popover.Root>
  );
});

/** Downloads the complete answer from the node. */
export const DownloadMenu = memo(function DownloadMenu() {
  const url = (format: "raw" | "json") => {
    const { q, order } = pageState();
    const { from, to } = pinned();
    return callUrl("query", { q, from, to, order, format });
  };
  const stamp = new Date().toISOString().slice(0, 19).replaceAll(":", "-");
  const [links, setLinks] = useState({ raw: "", json: "" });
  return (
    <Menu.Root onOpenChange={(open) => open && setLinks({ raw: url("raw"), json: url("json") })}>
      <Menu.Trigger render={<Button icon="download" aria-label="Download" title="Download" />} />
      <Menu.Portal>
        <Menu.Positioner sideOffset={4} align="end" className={controls.layer}>
          <Menu.Popup className={controls.popup}>
            <Menu.Item
              className={controls.item}
              render={
                <a href={links.raw} download={`bucksaw-${stamp}.log`}>
                  <Icon name="download" /> Text, unchanged
                </a>
              }
            />
            <Menu.Item
              className={controls.item}
              render={
                <a href={links.json} download={`bucksaw-${stamp}.ndjson`}>
                  <Icon name="download" /> NDJSON, with times and labels
                </a>
              }
            />
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  );
});
