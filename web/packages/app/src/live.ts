// Live updates: one event stream for the whole page, reopened with back-off when it breaks. Events say only what has
// changed; whoever shows it fetches it again.
import { ApiError, call, paths, transport } from "./api";
import { Cell } from "./cell";
import { hostNow } from "./clock";
import type { Subscription } from "./transport";

export type Topic = "inbox" | "plugins" | "devices";
const NAMES = ["hello", "inbox", "plugins", "devices"] as const;

export type Link =
  | { state: "connecting" }
  | { state: "live" }
  /** Broken; `retryAt` is when the next attempt begins (host time), absent while one is running. */
  | { state: "lost"; retryAt?: number };

export const link = new Cell<Link>({ state: "connecting" });

const listeners = new Map<Topic, Set<() => void>>();

export function on(topic: Topic, listener: () => void): () => void {
  let set = listeners.get(topic);
  if (!set) listeners.set(topic, (set = new Set()));
  set.add(listener);
  return () => set.delete(listener);
}

function tell(topic: Topic | "all"): void {
  const topics: Topic[] = topic === "all" ? ["inbox", "plugins", "devices"] : [topic];
  // One listener may watch several topics: it is told once.
  const told = new Set<() => void>();
  for (const name of topics) for (const listener of listeners.get(name) ?? []) told.add(listener);
  for (const listener of told) listener();
}

/** Delay before attempt number `n` (from 0), in ms: 1, 2, 4 … 30 s, with up to a quarter of jitter. */
export function backoff(n: number, random: () => number = Math.random): number {
  const base = Math.min(30_000, 1000 * 2 ** Math.min(n, 10));
  return Math.round(base * (0.75 + 0.5 * random()));
}

/** What the stream cannot show is caught by asking again this often while the page is seen. */
const CHECK_MS = 45_000;
/** A stream that does not open within this time is given up. */
const OPEN_MS = 15_000;

let running = false;
let attempt = 0;
let stream: Subscription | undefined;
let timer: ReturnType<typeof setTimeout> | undefined;
let opening: ReturnType<typeof setTimeout> | undefined;
let checking: ReturnType<typeof setInterval> | undefined;

function open(): void {
  if (!running) return;
  clearTimeout(timer);
  clearTimeout(opening);
  stream?.close();
  if (link.value.state === "lost") link.set({ state: "lost" });
  let helloed = false;
  const up = () => {
    clearTimeout(opening);
    if (link.value.state === "live") return;
    attempt = 0;
    link.set({ state: "live" });
  };
  opening = setTimeout(() => {
    stream?.close();
    lost();
  }, OPEN_MS);
  stream = transport.events(
    NAMES,
    () => {
      up();
      // Whatever happened while the stream was down is fetched now; `hello` asks for the same once more at most.
      if (!helloed) tell("all");
    },
    (name) => {
      up();
      if (name === "hello") {
        if (helloed) tell("all");
        helloed = true;
      } else {
        tell(name as Topic);
      }
    },
    lost,
  );
}

function lost(): void {
  if (!running) return;
  clearTimeout(opening);
  // The stream cannot tell "signed out" from "gone": one ordinary call can.
  call("GET", paths.session).then(
    () => schedule(),
    (error: unknown) => {
      if (error instanceof ApiError && error.status === 401) return;
      schedule();
    },
  );
}

function schedule(): void {
  if (!running) return;
  const wait = backoff(attempt++);
  link.set({ state: "lost", retryAt: hostNow() + wait });
  clearTimeout(timer);
  timer = setTimeout(open, wait);
}

/** Tries at once, for the impatient and for a page that has just come back to the front. */
export function retryNow(): void {
  if (running && link.value.state === "lost") open();
}

/** A call failed for want of an answer: the stream may be dead without knowing. */
export function suspect(): void {
  if (running && link.value.state === "live") {
    stream?.close();
    lost();
  }
}

function onVisible(): void {
  if (document.visibilityState !== "visible") return;
  if (link.value.state === "lost") open();
  else tell("all");
}

export function startLive(): void {
  if (running) return;
  running = true;
  attempt = 0;
  link.set({ state: "connecting" });
  document.addEventListener("visibilitychange", onVisible);
  window.addEventListener("online", retryNow);
  checking = setInterval(() => {
    if (document.visibilityState === "visible" && link.value.state === "live") tell("inbox");
  }, CHECK_MS);
  open();
}

export function stopLive(): void {
  running = false;
  stream?.close();
  stream = undefined;
  clearTimeout(timer);
  clearTimeout(opening);
  clearInterval(checking);
  document.removeEventListener("visibilitychange", onVisible);
  window.removeEventListener("online", retryNow);
  link.set({ state: "connecting" });
}
