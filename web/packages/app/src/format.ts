// Times, counts and names for people, by Intl.
import { locale, t } from "./strings";
import type { By, Outcome, ItemState, Kind } from "./types";

const relative = new Intl.RelativeTimeFormat(locale, { numeric: "auto" });
const clock = new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const full = new Intl.DateTimeFormat(locale, { dateStyle: "full", timeStyle: "medium" });

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** "5 minutes ago", "in 2 hours". Below a minute: "now", for counting seconds only unsettles. */
export function ago(at: number, now: number): string {
  const delta = at - now;
  const size = Math.abs(delta);
  if (size < MINUTE) return relative.format(0, "second");
  if (size < HOUR) return relative.format(Math.trunc(delta / MINUTE), "minute");
  if (size < DAY) return relative.format(Math.trunc(delta / HOUR), "hour");
  return relative.format(Math.trunc(delta / DAY), "day");
}

/** The largest fitting unit of a span, as text: "3 hours". */
export function span(ms: number): string {
  const unit = (value: number, name: "second" | "minute" | "hour" | "day") =>
    new Intl.NumberFormat(locale, { style: "unit", unit: name, unitDisplay: "long" }).format(value);
  if (ms < MINUTE) return unit(Math.max(0, Math.ceil(ms / 1000)), "second");
  if (ms < 2 * HOUR) return unit(Math.round(ms / MINUTE), "minute");
  if (ms < 2 * DAY) return unit(Math.round(ms / HOUR), "hour");
  return unit(Math.round(ms / DAY), "day");
}

/** A countdown: "4:07". */
export function countdown(ms: number): string {
  const s = Math.max(0, Math.ceil(ms / 1000));
  return `${Math.floor(s / 60)}:${String(s % 60).padStart(2, "0")}`;
}

/** A point in time: the hour for today, else the day with it. */
export function when(at: number, now: number): string {
  const a = new Date(at);
  const b = new Date(now);
  return a.toDateString() === b.toDateString() ? clock.format(a) : day.format(a);
}

export function exactly(at: number): string {
  return full.format(new Date(at));
}

/** Whoever acted, in words. */
export function actor(by: By | undefined): string {
  if (by === undefined || by === null) return t.by.unknown;
  if (typeof by !== "string") {
    const name = by.name ?? by.key?.slice(0, 8) ?? "";
    return actor(name === "" ? by.kind : `${by.kind}:${name}`);
  }
  const colon = by.indexOf(":");
  const kind = colon < 0 ? by : by.slice(0, colon);
  const name = colon < 0 ? "" : by.slice(colon + 1);
  switch (kind) {
    case "web":
    case "owner":
      return t.by.owner;
    case "token":
      return t.by.token(name);
    case "device":
      return t.by.device(name);
    case "rule":
    case "bypass":
      return t.by.rule(name);
    case "timeout":
      return t.by.timeout;
    default:
      return by;
  }
}

export type Tone = "good" | "bad" | "quiet";

/** How an item ended, in a word or two. An item that lapsed was never refused, and is not shown so. */
export function ending(state: ItemState, outcome: Outcome | undefined): { text: string; tone: Tone } {
  if (state === "expired") return { text: t.ending.expired, tone: "quiet" };
  if (state === "cancelled") return { text: t.ending.cancelled, tone: "quiet" };
  if (state === "pending") return { text: t.ending.pending, tone: "quiet" };
  return outcomeWord(outcome);
}

export function outcomeWord(outcome: Outcome | undefined): { text: string; tone: Tone } {
  if (outcome?.decision === "approved") return { text: t.ending.approved, tone: "good" };
  if (outcome?.decision === "rejected") return { text: t.ending.rejected, tone: "bad" };
  if (outcome?.answer !== undefined) return { text: t.ending.answered, tone: "good" };
  if (outcome?.action === "accept") return { text: t.ending.accepted, tone: "good" };
  if (outcome?.action === "decline") return { text: t.ending.declined, tone: "bad" };
  if (outcome?.action === "cancel") return { text: t.ending.dismissed, tone: "quiet" };
  return { text: t.ending.resolved, tone: "quiet" };
}

/** The one line that names an item of any kind. */
export function titleOf(item: { kind: Kind; summary?: unknown; question?: unknown; message?: unknown; tool_name?: unknown; server_name?: unknown }): string {
  const pick = (...candidates: unknown[]) => candidates.find((c): c is string => typeof c === "string" && c.trim() !== "") ?? "";
  switch (item.kind) {
    case "approval":
      return pick(item.summary, item.tool_name) || t.kinds.approval;
    case "clarification":
      return pick(item.question) || t.kinds.clarification;
    case "elicitation":
      return pick(item.message, item.server_name) || t.kinds.elicitation;
  }
}

/** The name shown for a device: what one gave it, what it calls itself, its model, or the head of its key. */
export function deviceName(device: { name?: string; key?: string; platform?: string; device_info?: { device_name?: string; model?: string } | null }): string {
  return device.name?.trim() || device.device_info?.device_name?.trim() || device.device_info?.model?.trim() || (device.key ? t.devices.unnamed(device.key.slice(0, 8)) : t.devices.aDevice);
}

/** Six digits as `123 456`, however they came. */
export function codeGroups(code: string): string {
  const digits = code.replace(/\s+/g, "");
  return /^\d{6}$/.test(digits) ? `${digits.slice(0, 3)} ${digits.slice(3)}` : code;
}
