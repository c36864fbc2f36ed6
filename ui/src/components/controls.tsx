import { Tooltip } from "@base-ui/react/tooltip";
import type { ComponentProps, ReactNode } from "react";
import styles from "./controls.module.css";
import { cx } from "./cx.ts";
import { Icon, type IconName } from "./Icon.tsx";

interface ButtonProps extends ComponentProps<"button"> {
  look?: "plain" | "bare" | "primary";
  small?: boolean;
  on?: boolean;
  icon?: IconName | undefined;
}

/** A button with a text. */
export function Button({ look = "plain", small, on, icon, className, children, ...rest }: ButtonProps) {
  const classes = cx(
    styles.button,
    look === "bare" && styles.bare,
    look === "primary" && styles.primary,
    small === true && styles.small,
    on === true && styles.on,
    children === undefined && styles.icon,
    className,
  );
  return (
    <button type="button" {...rest} className={classes}>
      {icon === undefined ? undefined : <Icon name={icon} />}
      {children}
    </button>
  );
}

interface IconButtonProps extends Omit<ButtonProps, "children"> {
  icon: IconName;
  name: string;
  shortcut?: string;
  children?: ReactNode;
}

/** A button with an icon. Its name is its tooltip and its accessible name. */
export function IconButton({ name, shortcut, look = "bare", ...rest }: IconButtonProps) {
  return (
    <Tooltip.Root>
      <Tooltip.Trigger render={<Button look={look} aria-label={name} {...rest} />} />
      <Tooltip.Portal>
        <Tooltip.Positioner sideOffset={6} className={styles.layer}>
          <Tooltip.Popup className={styles.tip}>
            {name}
            {shortcut === undefined ? undefined : <kbd>{shortcut}</kbd>}
          </Tooltip.Popup>
        </Tooltip.Positioner>
      </Tooltip.Portal>
    </Tooltip.Root>
  );
}

interface ColumnButtonProps {
  /** The field. */
  name: string;
  shown: boolean;
  onColumn: (name: string) => void;
}

/** Adds a field as a column of the list, or removes it. */
export function ColumnButton({ name, shown, onColumn }: ColumnButtonProps) {
  return (
    <IconButton
      small
      icon="columns"
      on={shown}
      aria-pressed={shown}
      name={shown ? `Remove the column ${name}` : `A column for ${name}`}
      onClick={() => onColumn(name)}
    />
  );
}

export { styles as controls };
