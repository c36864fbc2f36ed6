/**
 * Calls the handler of a key, unless a text field has the focus or a dialog is open. Names of keys (`enter`) are in lower
 * case. Returns a function that removes the handlers.
 */
export function onKeys(actions: Record<string, () => void>): () => void {
  const onKey = (event: KeyboardEvent) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const target = event.target instanceof HTMLElement ? event.target : undefined;
    if (target?.closest("input, textarea, select, [contenteditable], [role=dialog], [role=menu]") != null) return;
    // The focused element handles this key itself.
    if (event.key === "Enter" && target?.closest("button, a") != null) return;
    const action = actions[event.key.length > 1 ? event.key.toLowerCase() : event.key];
    if (action === undefined) return;
    event.preventDefault();
    action();
  };
  document.addEventListener("keydown", onKey);
  return () => document.removeEventListener("keydown", onKey);
}
