import { Tooltip } from "@base-ui/react/tooltip";
import { lazy, type MouseEvent, Suspense, useEffect, useRef, useState } from "react";
import { type PageState, writeState } from "../lib/url.ts";
import { chooseTenant, chosenTenant, logOut, mayAskNodes, useAccess } from "../state/access.ts";
import { go, pageState, usePage } from "../state/page.ts";
import { prefer, usePreferences } from "../state/preferences.ts";
import { Announcer } from "./Announcer.tsx";
import styles from "./App.module.css";
import { IconButton } from "./controls.tsx";
import { Explore } from "./Explore.tsx";
import { onKeys } from "./keys.ts";
import { LogIn } from "./LogIn.tsx";

const Help = lazy(() => import("./Help.tsx"));
const NodesPage = lazy(() => import("../nodes/NodesPage.tsx"));

const THEMES = { system: "dark", dark: "light", light: "system" } as const;
const THEME_ICONS = { system: "contrast", dark: "moon", light: "sun" } as const;

export function App() {
  const { view } = usePage();
  const { refused } = useAccess();
  const [help, setHelp] = useState(false);
  const before = useRef<"start" | "explore">("explore");
  useEffect(
    () =>
      onKeys({
        "?": () => setHelp(true),
        n: () => {
          const { view } = pageState();
          if (view !== "nodes" && !mayAskNodes()) return;
          if (view !== "nodes") before.current = view;
          go({ view: view === "nodes" ? before.current : "nodes" });
        },
      }),
    [],
  );
  useEffect(() => {
    document.title = view === "nodes" ? "Nodes · Bucksaw" : "Bucksaw";
  }, [view]);
  return (
    <Tooltip.Provider delay={500}>
      <div className={styles.page}>
        <a className={styles.skip} href={view === "nodes" ? "#nodes" : "#found"}>
          Skip to the {{ start: "streams", explore: "records", nodes: "nodes" }[view]}
        </a>
        <Header onHelp={() => setHelp(true)} />
        {refused ? (
          <LogIn />
        ) : view === "nodes" && !mayAskNodes() ? (
          <p className={styles.loading}>This token sees its own records, not the nodes.</p>
        ) : view === "nodes" ? (
          <Suspense fallback={<p className={styles.loading}>Loading…</p>}>
            <NodesPage />
          </Suspense>
        ) : (
          <Explore />
        )}
      </div>
      {help ? (
        <Suspense>
          <Help onClose={() => setHelp(false)} />
        </Suspense>
      ) : undefined}
      <Announcer />
    </Tooltip.Provider>
  );
}

function Header({ onHelp }: { onHelp: () => void }) {
  const state = usePage();
  const { session, refused } = useAccess();
  const { theme, zone } = usePreferences();
  const utc = zone === "UTC";
  const tenants = session?.tenants ?? [];
  const [other, setOther] = useState("");
  const to = (change: Partial<PageState>) => ({
    href: writeState({ ...state, ...change }),
    onClick: (event: MouseEvent) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey) return;
      event.preventDefault();
      go(change);
    },
  });
  const link = (view: "start" | "explore" | "nodes", name: string, change: Partial<PageState> = {}) => (
    <a {...to({ view, ...change })} aria-current={state.view === view ? "page" : undefined}>
      {name}
    </a>
  );
  return (
    <header className={styles.head}>
      <div className={styles.brand}>
        <img src="/favicon.svg" alt="" />
        <span>Bucksaw</span>
      </div>
      <nav className={styles.nav} aria-label="Views">
        {refused ? undefined : (
          <>
            {link("start", "Streams", { q: "", record: "", tail: false })}
            {link("explore", "Explore")}
            {mayAskNodes() ? link("nodes", "Nodes") : undefined}
          </>
        )}
      </nav>
      {tenants.length > 1 && !refused ? (
        <select
          className={styles.tenant}
          aria-label="Tenant"
          value={chosenTenant()}
          onChange={(event) => chooseTenant(event.target.value)}
        >
          {tenants.map((tenant) => (
            <option key={tenant}>{tenant}</option>
          ))}
        </select>
      ) : undefined}
      <IconButton
        icon="clock"
        name={utc ? "Times are UTC: show local times" : `Times are ${zone === "" ? "local" : `of ${zone}`}: show UTC`}
        on={utc}
        aria-pressed={utc}
        onClick={() => {
          setOther(utc ? "" : zone);
          prefer({ zone: utc ? other : "UTC" });
        }}
      >
        {utc ? "UTC" : zone === "" ? "Local" : (zone.split("/").at(-1) ?? zone).replaceAll("_", " ")}
      </IconButton>
      <IconButton
        icon={THEME_ICONS[theme]}
        name={`Theme: ${theme === "system" ? "as the system" : theme}`}
        onClick={() => prefer({ theme: THEMES[theme] })}
      />
      {session?.authenticates === true && !refused ? (
        <IconButton icon="leave" name={`Log out ${session.name ?? ""}`.trim()} onClick={logOut} />
      ) : undefined}
      <IconButton icon="help" name="Help and keys" shortcut="?" onClick={onHelp} />
    </header>
  );
}
