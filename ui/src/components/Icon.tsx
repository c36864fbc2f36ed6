const PATHS = {
  search: "M7 12.5a5.5 5.5 0 1 1 0-11 5.5 5.5 0 0 1 0 11ZM11 11l3.5 3.5",
  clock: "M8 14.5a6.5 6.5 0 1 1 0-13 6.5 6.5 0 0 1 0 13ZM8 4.5V8l2.5 1.5",
  refresh: "M13.5 8A5.5 5.5 0 1 1 11.7 4M13.5 1.5V5H10",
  play: "M4.5 2.5v11l9-5.5z",
  pause: "M5 2.5v11M11 2.5v11",
  stop: "M3.5 3.5h9v9h-9z",
  star: "m8 1.5 2 4.2 4.5.6-3.3 3.1.8 4.6L8 11.8 4 14l.8-4.6L1.5 6.3 6 5.7z",
  link: "M6.5 9.5a3 3 0 0 0 4.3.3l2.4-2.4a3 3 0 0 0-4.3-4.3l-.9.9M9.5 6.5a3 3 0 0 0-4.3-.3L2.8 8.6a3 3 0 0 0 4.3 4.3l.9-.9",
  download: "M8 1.5v9M4.5 7 8 10.5 11.5 7M2 14h12",
  help: "M8 14.5a6.5 6.5 0 1 1 0-13 6.5 6.5 0 0 1 0 13ZM6 6.2A2 2 0 1 1 8 8.5v.8M8 11.4v.2",
  sun: "M8 11a3 3 0 1 1 0-6 3 3 0 0 1 0 6ZM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
  moon: "M13.5 9.5A6 6 0 0 1 6.5 2.5a6 6 0 1 0 7 7Z",
  contrast: "M8 14.5a6.5 6.5 0 1 1 0-13 6.5 6.5 0 0 1 0 13ZM8 1.5v13",
  close: "m3.5 3.5 9 9M12.5 3.5l-9 9",
  up: "M3.5 10 8 5.5l4.5 4.5",
  down: "M3.5 6 8 10.5 12.5 6",
  right: "M6 3.5 10.5 8 6 12.5",
  left: "M10 3.5 5.5 8l4.5 4.5",
  wrap: "M2 3.5h12M2 8h9.5a2 2 0 1 1 0 4H9M10.5 10 8.5 12l2 2M2 12h4",
  columns: "M2 2.5h12v11H2zM6.5 2.5v11M10.5 2.5v11",
  fields: "M2 3.5h3M2 8h3M2 12.5h3M7.5 3.5H14M7.5 8H14M7.5 12.5H14",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  trash: "M2.5 4h11M6 4V2.5h4V4M4 4l.6 9.5h6.8L12 4",
  wider: "M1.5 8h13M4.5 5l-3 3 3 3M11.5 5l3 3-3 3",
  check: "m3 8.5 3.5 3.5L13 4.5",
  sort: "M5 2.5v11M2.5 11 5 13.5 7.5 11M11 13.5v-11M8.5 5 11 2.5 13.5 5",
  log: "M2.5 2v11.5H14M5 11c1-5 4-7 9-7.5",
  calendar: "M2 3.5h12v10H2zM2 6.5h12M5 1.5v3M11 1.5v3",
  home: "M2 7.5 8 2l6 5.5M4 6.5v7h8v-7",
  around: "M2.5 3h11M2.5 13h11M5 6.5h6v3H5z",
  repeat: "M2.5 8a5 5 0 0 1 8.5-3.5L13 6.5M13 3v3.5H9.5M13.5 8A5 5 0 0 1 5 11.5L3 9.5M3 13V9.5h3.5",
  leave: "M6.5 2.5h-4v11h4M6.5 8h8M11.5 5l3 3-3 3",
  more: "M3 8h.01M8 8h.01M13 8h.01",
} as const;

export type IconName = keyof typeof PATHS;

/** A decorative icon beside a text, or in a button that has a name. */
export function Icon({ name }: { name: IconName }) {
  return (
    <svg
      viewBox="0 0 16 16"
      width="16"
      height="16"
      fill="none"
      stroke="currentColor"
      aria-hidden="true"
      focusable="false"
    >
      <path d={PATHS[name]} strokeWidth={name === "more" ? 2.4 : 1.5} strokeLinecap="round" strokeLinejoin="round" />
    </svg>
  );
}
