// Who is signed in, and signing in with a link.
import { ApiError, call, isRecord, paths, whenSignedOut } from "./api";
import { Cell, useCell } from "./cell";
import type { Permission, Session } from "./types";

export type SessionState =
  | { phase: "loading" }
  | { phase: "unreachable" }
  | { phase: "out"; why: "none" | "lapsed" | "left" | "bad-link"; detail?: string }
  | { phase: "in"; session: Session };

export const session = new Cell<SessionState>({ phase: "loading" });

whenSignedOut(() => {
  const was = session.value.phase;
  if (was === "out") return;
  session.set({ phase: "out", why: was === "in" ? "lapsed" : "none" });
});

/** Takes the sign-in token out of the address bar and out of the history entry, and gives it back. */
export function takeSigninToken(): string | undefined {
  const match = /^#signin=(.+)$/.exec(location.hash);
  if (!match?.[1]) return undefined;
  history.replaceState(null, "", location.pathname + location.search);
  try {
    return decodeURIComponent(match[1]);
  } catch {
    return match[1];
  }
}

export async function start(): Promise<void> {
  const token = takeSigninToken();
  if (token === undefined) return load();
  session.set({ phase: "loading" });
  try {
    await call("POST", paths.session, { token });
  } catch (error) {
    if (!(error instanceof ApiError)) return session.set({ phase: "unreachable" });
    // Who is signed in already, or is a device, need not care that the link is used up.
    await load();
    if (session.value.phase === "out") session.set({ phase: "out", why: "bad-link", detail: error.status === 401 ? undefined : error.message });
    return;
  }
  return load();
}

export async function load(): Promise<void> {
  try {
    const s = await call<Session>("GET", paths.session);
    if (isRecord(s) && isRecord(s.principal)) session.set({ phase: "in", session: s });
    else session.set({ phase: "unreachable" });
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) {
      if (session.value.phase !== "out") session.set({ phase: "out", why: "none" });
    } else {
      session.set({ phase: "unreachable" });
    }
  }
}

export async function signOut(): Promise<void> {
  await call("DELETE", paths.session);
  session.set({ phase: "out", why: "left" });
}

export function may(state: SessionState, what: Permission): boolean {
  return state.phase === "in" && state.session.permissions.includes(what);
}

export function useMay(what: Permission): boolean {
  return may(useCell(session), what);
}

/** The device at the other end of the pipe, where the page is seen through one. */
export function useIsDevice(): boolean {
  const state = useCell(session);
  return state.phase === "in" && state.session.principal.kind === "device";
}
