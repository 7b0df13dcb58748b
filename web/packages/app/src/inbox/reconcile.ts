// How a new snapshot of the Inbox changes what is on the screen. Pure, so that every order of events can be tested.
import type { By, InboxReply, Item, ItemState, Outcome } from "../types";

/** An item that ended while someone was at work on it: its card stays, closed, until it is dismissed. */
export interface Closed {
  item: Item;
  /** What became of it; absent until the host has said. */
  ending?: { state: ItemState; outcome?: Outcome; by?: By };
  /** True where our own answer came too late. */
  late: boolean;
  /** What had been typed and was not sent. */
  draft?: string;
}

export interface InboxView {
  loaded: boolean;
  items: Item[];
  closed: Closed[];
}

export const emptyView: InboxView = { loaded: false, items: [], closed: [] };

export function itemsOf(reply: InboxReply): Item[] {
  const items: Item[] = [
    ...(reply.approvals ?? []).map((a): Item => ({ ...a, kind: "approval" })),
    ...(reply.clarifications ?? []).map((c): Item => ({ ...c, kind: "clarification" })),
    ...(reply.elicitations ?? []).map((e): Item => ({ ...e, kind: "elicitation" })),
  ];
  // Oldest first: a new item appears below and moves nothing under the pointer.
  return items.sort((a, b) => a.created_at - b.created_at || a.request_id.localeCompare(b.request_id));
}

export interface Change {
  view: InboxView;
  added: Item[];
  /** Ended elsewhere, with nobody at work on them. */
  removed: Item[];
  /** Ended elsewhere under someone's hands. */
  closed: Item[];
}

/**
 * `answered` are the items that this page has resolved itself: a snapshot taken before that must not bring them back.
 * `engaged` says whether someone is at work on an item's card.
 */
export function reconcile(
  view: InboxView,
  reply: InboxReply,
  answered: ReadonlySet<string>,
  engaged: (id: string) => boolean,
): Change {
  const items = itemsOf(reply).filter((i) => !answered.has(i.request_id));
  const now = new Set(items.map((i) => i.request_id));
  const before = new Set(view.items.map((i) => i.request_id));
  const gone = view.items.filter((i) => !now.has(i.request_id));
  const underHands = gone.filter((i) => engaged(i.request_id));
  const closed = [
    // A closed card whose item is pending after all (the host was restored, say) gives way to the item.
    ...view.closed.filter((c) => !now.has(c.item.request_id)),
    ...underHands.map((item): Closed => ({ item, late: false })),
  ];
  return {
    view: { loaded: true, items, closed },
    added: view.loaded ? items.filter((i) => !before.has(i.request_id)) : [],
    removed: gone.filter((i) => !engaged(i.request_id)),
    closed: underHands,
  };
}

/** The cards in the order they are shown. */
export function cards(view: InboxView): ({ closed?: undefined; item: Item } | { closed: Closed; item: Item })[] {
  const all = [...view.items.map((item) => ({ item })), ...view.closed.map((closed) => ({ item: closed.item, closed }))];
  return all.sort((a, b) => a.item.created_at - b.item.created_at || a.item.request_id.localeCompare(b.item.request_id));
}
