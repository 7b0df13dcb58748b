// The Inbox as the whole page knows it: the badge counts it wherever one is.
import { ApiError, call, isRecord, paths } from "../api";
import { Cell } from "../cell";
import { actor, ending, titleOf } from "../format";
import { on, suspect } from "../live";
import { t } from "../strings";
import { Unreachable } from "../transport";
import type { Answer, By, InboxReply, Item, Outcome, RequestStatus } from "../types";
import { announce, toast } from "../ui/toast";
import { dropDraft, hasDraft, typedText } from "./drafts";
import { emptyView, reconcile, type Closed, type InboxView } from "./reconcile";

export const inbox = new Cell<InboxView>(emptyView);
export const inboxError = new Cell<unknown>(undefined);
/** When the list last lost a card by another's hand: the cards below have moved under the pointer. */
export let shiftedAt = 0;

const answered = new Set<string>();
let fetching = false;
let again = false;
let epoch = 0;

function engaged(id: string): boolean {
  if (hasDraft(id)) return true;
  const active = document.activeElement;
  return active?.closest<HTMLElement>("[data-item]")?.dataset["item"] === id;
}

export async function refreshInbox(): Promise<void> {
  if (fetching) {
    again = true;
    return;
  }
  fetching = true;
  const mine = epoch;
  try {
    do {
      again = false;
      const reply = await call<InboxReply>("GET", paths.inbox);
      if (mine !== epoch) return;
      inboxError.set(undefined);
      take(reply);
    } while (again);
  } catch (error) {
    if (mine !== epoch) return;
    if (error instanceof Unreachable) suspect();
    inboxError.set(error);
  } finally {
    if (mine === epoch) fetching = false;
  }
}

function take(reply: InboxReply): void {
  const change = reconcile(inbox.value, reply, answered, engaged);
  for (const item of change.closed) rememberDraft(change.view, item.request_id);
  if (change.removed.length > 0) shiftedAt = performance.now();
  inbox.set(change.view);

  if (change.added.length === 1 && change.added[0]) announce(t.inbox.arrived(t.kinds[change.added[0].kind], titleOf(change.added[0])));
  else if (change.added.length > 1) announce(t.inbox.arrivedMany(change.added.length));

  for (const item of change.closed) void explain(item);
  if (change.removed.length > 2) toast(t.inbox.closedMany(change.removed.length));
  else for (const item of change.removed) void explainAway(item);
}

function rememberDraft(view: InboxView, id: string): void {
  const draft = typedText(id);
  view.closed = view.closed.map((c) => (c.item.request_id === id && draft ? { ...c, draft } : c));
  dropDraft(id);
}

async function fate(id: string): Promise<Closed["ending"]> {
  try {
    const s = await call<RequestStatus>("GET", paths.request(id));
    if (s.state === "pending") return undefined;
    return { state: s.state, outcome: s.outcome, by: s.resolved_by };
  } catch {
    return undefined;
  }
}

async function explain(item: Item): Promise<void> {
  const what = await fate(item.request_id);
  if (!what) return;
  inbox.update((v) => ({ ...v, closed: v.closed.map((c) => (c.item.request_id === item.request_id ? { ...c, ending: what } : c)) }));
  announce(endingSentence(what));
}

async function explainAway(item: Item): Promise<void> {
  const what = await fate(item.request_id);
  toast(`${what ? endingSentence(what) : t.inbox.closedElsewhere} ${titleOf(item)}`);
}

/** "Approved by device Pixel." or "Expired without an answer." */
export function endingSentence(what: NonNullable<Closed["ending"]>): string {
  const { text } = ending(what.state, what.outcome);
  return what.state === "resolved" && what.by !== undefined ? t.inbox.endedBy(text, actor(what.by)) : t.inbox.ended(text);
}

export function dismiss(id: string): void {
  inbox.update((v) => ({ ...v, closed: v.closed.filter((c) => c.item.request_id !== id) }));
}

/** What a 409 says of the outcome that stands; hosts may nest it. */
export function standing(body: Record<string, unknown>): Closed["ending"] {
  const from = isRecord(body["standing"]) ? { ...body, ...body["standing"] } : body;
  const rawOutcome = isRecord(from["outcome"]) ? from["outcome"] : from;
  const outcome: Outcome = {};
  if (rawOutcome["decision"] === "approved" || rawOutcome["decision"] === "rejected") outcome.decision = rawOutcome["decision"];
  if (typeof rawOutcome["reason"] === "string") outcome.reason = rawOutcome["reason"];
  if (typeof rawOutcome["answer"] === "string") outcome.answer = rawOutcome["answer"];
  const action = rawOutcome["action"];
  if (action === "accept" || action === "decline" || action === "cancel") outcome.action = action;
  const state = from["state"];
  const known = state === "expired" || state === "cancelled" ? state : "resolved";
  const by = from["resolved_by"] ?? from["by"];
  const who = typeof by === "string" || (isRecord(by) && typeof by["kind"] === "string") ? (by as By) : undefined;
  return { state: known, outcome, by: who };
}

export type AnswerResult = { ok: true } | { ok: false; error: unknown };

/** Sends an answer. Where another came first the card is closed with the outcome that stands. */
export async function answer(item: Item, body: Answer): Promise<AnswerResult> {
  const id = item.request_id;
  try {
    await call("POST", paths.answer(id), body);
  } catch (error) {
    if (error instanceof ApiError && (error.status === 409 || error.status === 404 || error.status === 410)) {
      const draft = typedText(id);
      dropDraft(id);
      const what = error.status === 409 ? standing(error.body) : undefined;
      inbox.update((v) => ({
        ...v,
        items: v.items.filter((i) => i.request_id !== id),
        closed: [...v.closed.filter((c) => c.item.request_id !== id), { item, late: true, ending: what, draft }],
      }));
      announce(what ? endingSentence(what) : t.inbox.closedElsewhere);
      if (!what || what.by === undefined) void explain(item);
      return { ok: true };
    }
    if (error instanceof Unreachable) suspect();
    return { ok: false, error };
  }
  answered.add(id);
  dropDraft(id);
  const at = inbox.value.items.findIndex((i) => i.request_id === id);
  inbox.update((v) => ({ ...v, items: v.items.filter((i) => i.request_id !== id), closed: v.closed.filter((c) => c.item.request_id !== id) }));
  moveOn(at);
  toast(`${t.inbox.sent(outcomeOf(body))} ${titleOf(item)}`);
  return { ok: true };
}

function outcomeOf(body: Answer): string {
  return ending("resolved", "decision" in body ? body : "answer" in body ? { answer: body.answer } : { action: body.action }).text;
}

/** The card with the focus is gone by one's own act: the next one takes it, or the heading of the empty page. */
function moveOn(index: number): void {
  requestAnimationFrame(() => {
    const active = document.activeElement;
    if (active && active !== document.body) return;
    const all = document.querySelectorAll<HTMLElement>("[data-item]");
    const next = all[Math.min(index, all.length - 1)] ?? document.querySelector<HTMLElement>("main h1");
    next?.focus({ preventScroll: true });
  });
}

let off: (() => void) | undefined;

export function startInbox(): void {
  off ??= on("inbox", () => void refreshInbox());
}

export function stopInbox(): void {
  off?.();
  off = undefined;
  epoch++;
  fetching = false;
  answered.clear();
  inbox.set(emptyView);
  inboxError.set(undefined);
}
