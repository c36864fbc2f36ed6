import { say } from "./Announcer.tsx";

/** Copies a text to the clipboard and announces it. */
export async function copy(text: string, what: string) {
  try {
    // The clipboard is missing if the page was not loaded over a secure connection.
    if (navigator.clipboard === undefined) copyByHand(text);
    else await navigator.clipboard.writeText(text);
    say(`Copied ${what}`);
  } catch {
    say(`The browser does not allow copying ${what}`);
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
