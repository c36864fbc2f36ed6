import { Menu } from "@base-ui/react/menu";
import type { FieldFacts } from "../lib/complete.ts";
import { LEVEL_FIELD } from "../lib/url.ts";
import { Button, controls } from "./controls.tsx";
import { cx } from "./cx.ts";
import styles from "./Histogram.module.css";
import { Icon } from "./Icon.tsx";

/** Fields offered for a breakdown, most frequent first. */
const FIELDS_MAX = 40;

interface Props {
  by: string;
  fields: readonly FieldFacts[];
  onBy: (by: string) => void;
}

/** The field by which the histogram is broken down. */
export function BreakdownMenu({ by, fields, onBy }: Props) {
  const names = [...new Set(fields.map(({ name }) => name))].filter((name) => name !== LEVEL_FIELD);
  const offered = names.slice(0, FIELDS_MAX);
  if (by !== "" && by !== LEVEL_FIELD && !offered.includes(by)) offered.unshift(by);
  const shown = by === "" ? "none" : by === LEVEL_FIELD ? "level" : by;
  const item = (value: string, name: string) => (
    <Menu.RadioItem key={value} value={value} className={cx(controls.item, styles.choice)} closeOnClick>
      <Menu.RadioItemIndicator keepMounted className={styles.chosen}>
        <Icon name="check" />
      </Menu.RadioItemIndicator>
      {name}
    </Menu.RadioItem>
  );
  return (
    <Menu.Root>
      <Menu.Trigger
        render={<Button small look="bare" aria-label={`Broken down by ${shown}`} title="Break down by a field" />}
      >
        by <span className={styles.by}>{shown}</span>
        <Icon name="down" />
      </Menu.Trigger>
      <Menu.Portal>
        <Menu.Positioner sideOffset={4} align="end" className={controls.layer}>
          <Menu.Popup className={controls.popup}>
            <Menu.RadioGroup value={by} onValueChange={(value) => onBy(String(value))}>
              {item(LEVEL_FIELD, "level")}
              {item("", "no breakdown")}
              {offered.map((name) => item(name, name))}
            </Menu.RadioGroup>
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  );
}
