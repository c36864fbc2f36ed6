import { useEffect, useState } from "react";
import { usePreferences } from "../state/preferences.ts";

/** The colours of the style sheet for a canvas, by property name; updated when the theme changes. */
export function usePalette<K extends string>(names: readonly K[]): Record<K, string> {
  const { theme } = usePreferences();
  const [dark, setDark] = useState(false);
  const [palette, setPalette] = useState<Record<string, string>>({});
  useEffect(() => {
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const look = () => setDark(scheme.matches);
    look();
    scheme.addEventListener("change", look);
    return () => scheme.removeEventListener("change", look);
  }, []);
  const key = names.join(" ");
  // biome-ignore lint/correctness/useExhaustiveDependencies: the style sheet depends on the theme
  useEffect(() => {
    const probe = document.createElement("span");
    // During a transition the computed colour is not the final one.
    probe.style.transition = "none";
    document.body.append(probe);
    const read = (name: string) => {
      probe.style.color = `var(--${name})`;
      return [name, getComputedStyle(probe).color] as const;
    };
    setPalette(Object.fromEntries(key.split(" ").map(read)));
    probe.remove();
  }, [key, theme, dark]);
  return palette as Record<K, string>;
}
