import { Menu } from "@base-ui/react/menu";
import { memo } from "react";
import { REFRESH_SECONDS } from "../lib/url.ts";
import { setRefresh } from "./actions.ts";
import { Button, controls } from "./controls.tsx";
import { Icon } from "./Icon.tsx";
import styles from "./Menus.module.css";

function nameOf(seconds: number): string {
  if (seconds === 0) return "off";
  return seconds < 60 ? `${seconds} s` : `${seconds / 60} m`;
}

/** How often the search is repeated. A hidden page repeats nothing. */
export const RefreshMenu = memo(function RefreshMenu({ every }: { every: number }) {
  return (
    <Menu.Root>
      <Menu.Trigger
        render={
          <Button
            icon={every === 0 ? "down" : undefined}
            on={every > 0}
            aria-label={`Refresh: ${nameOf(every)}`}
            title="Repeat the search"
          >
            {every === 0 ? undefined : nameOf(every)}
          </Button>
        }
      />
      <Menu.Portal>
        <Menu.Positioner sideOffset={4} align="end" className={controls.layer}>
          <Menu.Popup className={controls.popup}>
            <Menu.RadioGroup value={every} onValueChange={(value) => setRefresh(Number(value))}>
              {REFRESH_SECONDS.map((seconds) => (
                <Menu.RadioItem key={seconds} value={seconds} className={controls.item} closeOnClick>
                  <Menu.RadioItemIndicator keepMounted className={styles.chosen}>
                    <Icon name="check" />
                  </Menu.RadioItemIndicator>
                  {seconds === 0 ? "No refresh" : `Every ${nameOf(seconds)}`}
                </Menu.RadioItem>
              ))}
            </Menu.RadioGroup>
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  );
});
