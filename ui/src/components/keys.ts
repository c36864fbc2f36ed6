/**
 * Calls what belongs to a key, while no text is being typed and no dialog is open. Keys with names (`enter`) are
 * written small. Returns what ends that.
 */
export function onKeys(actions: Record<string, () => void>): () => void {
  const onKey = (event: KeyboardEvent) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const target = event.target instanceof HTMLElement ? event.target : undefined;
    if (target?.closest("input, textarea, select, [contenteditable], [role=dialog], [role=menu]") != null) return;
    // What has the focus has its own use for it.
    if (event.key === "Enter" && target?.closest("button, a") != null) return;
    const action = actions[event.key.length > 1 ? event.key.toLowerCase() : event.key];
    if (action === undefined) return;
    event.preventDefault();
    action();
  };
  document.addEventListener("keydown", onKey);
  return () => document.removeEventListener("keydown", onKey);
}
