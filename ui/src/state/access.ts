import { Store, useStore } from "./store.ts";

/** Who the browser is to the node, as `/api/v1/session` describes it. */
export interface Session {
  /** Whether the node needs a credential. */
  authenticates: boolean;
  name?: string;
  scopes?: string[];
  labels?: Record<string, string>;
  tenants?: string[];
  /** Whether it may see what concerns all tenants of the node. */
  sees_nodes?: boolean;
}

export interface Access {
  /** Whether a request was refused for lack of a valid credential. Then only the log-in is shown. */
  refused: boolean;
  /** Unknown until the node has answered. */
  session: Session | undefined;
}

/** What the browser may ask the node. */
export const access = new Store<Access>({ refused: false, session: undefined });

export function useAccess(): Access {
  return useStore(access);
}

/** Notes that the node refused a request: the token is missing, revoked or expired. */
export function refused() {
  if (!access.value.refused) access.change({ refused: true, session: undefined });
}

/** Whether the page may ask for the nodes of the cluster. */
export function mayAskNodes(): boolean {
  return !access.value.refused && access.value.session?.sees_nodes !== false;
}

/** Asks the node who the browser is. A node that cannot be reached is reported by the requests of the views. */
export async function loadSession() {
  const response = await fetch("/api/v1/session", { cache: "no-store" }).catch(() => undefined);
  if (response?.status === 401) refused();
  if (response?.ok === true) access.change({ session: (await response.json()) as Session });
}

/** Asks whether users can log in at an identity provider; returns its URL. */
export async function loadProvider(): Promise<string | undefined> {
  const response = await fetch("/api/v1/login", { cache: "no-store" }).catch(() => undefined);
  if (response?.ok !== true) return undefined;
  const { provider } = (await response.json()) as { provider?: string | null };
  return provider ?? undefined;
}

/** Logs in with a token; returns why that failed. The node keeps the token in a cookie that no script can read. */
export async function logIn(token: string): Promise<string | undefined> {
  try {
    const body = new URLSearchParams({ token });
    const response = await fetch("/api/v1/login", { method: "POST", body, cache: "no-store" });
    if (response.ok) return undefined;
    const answer = (await response.json().catch(() => undefined)) as { error?: string } | undefined;
    return answer?.error ?? `the node answered with status ${response.status}`;
  } catch {
    return "the node does not answer";
  }
}

/** Removes the cookie, and shows the log-in. */
export async function logOut() {
  await fetch("/api/v1/logout", { method: "POST", cache: "no-store" }).catch(() => undefined);
  location.assign("/");
}
