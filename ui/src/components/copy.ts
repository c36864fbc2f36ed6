import { say } from "./Announcer.tsx";

/** Puts a text into the clipboard, and says so. */
export async function copy(text: string, what: string) {
  try {
    // There is none where the page did not come over a connection that the browser trusts.
    if (navigator.clipboard === undefined) copyByHand(text);
    else await navigator.clipboard.writeText(text);
    say(`Copied ${what}`);
  } catch {
    say(`The browser did not allow to copy ${what}`);
  }
}

function copyByHand(text: string) {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "unseen";
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  if (!copied) throw new Error("not copied");
}
