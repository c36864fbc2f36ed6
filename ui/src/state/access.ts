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
  // The chosen tenant is one of another user.
  if (response?.status === 403 && chosenTenant() !== undefined) return chooseTenant(undefined);
  if (response?.ok !== true) return;
  const session = (await response.json()) as Session;
  access.change({ session });
  const tenants = session.tenants ?? [];
  const [first] = tenants;
  if (tenants.length > 1 && chosenTenant() === undefined) chooseTenant(first);
}

const TENANT_COOKIE = "bucksaw_tenant";

/** The tenant whose records the page shows; undefined if the user has not chosen. The node reads it from a cookie. */
export function chosenTenant(): string | undefined {
  const pairs = document.cookie.split("; ").map((pair) => pair.split("="));
  const value = pairs.find(([name]) => name === TENANT_COOKIE)?.[1];
  return value === undefined || value === "" ? undefined : decodeURIComponent(value);
}

function keepTenant(tenant: string | undefined) {
  const secure = location.protocol === "https:" ? "; Secure" : "";
  const age = tenant === undefined ? "; Max-Age=0" : "";
  // biome-ignore lint/suspicious/noDocumentCookie: the Cookie Store API is missing outside of secure contexts
  document.cookie = `${TENANT_COOKIE}=${encodeURIComponent(tenant ?? "")}; Path=/; SameSite=Strict${secure}${age}`;
}

/** Chooses a tenant, or none; all views begin anew. */
export function chooseTenant(tenant: string | undefined) {
  keepTenant(tenant);
  // A browser without cookies would begin anew for ever.
  if (chosenTenant() === tenant) location.reload();
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
  keepTenant(undefined);
  location.assign("/");
}
