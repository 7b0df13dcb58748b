// Single keys in the Inbox. They never act while one types, and never answer without naming the card first.
import { useEffect, useId, useState } from "preact/hooks";
import { useCell } from "../cell";
import { titleOf } from "../format";
import { Keyboard as KeyboardIcon } from "../icons";
import { shortcuts } from "../prefs";
import { useMay } from "../session";
import { t } from "../strings";
import type { Approval } from "../types";
import { Notice } from "../ui/bits";
import { Dialog } from "../ui/dialog";
import { Seen } from "../ui/mono";
import { announce } from "../ui/toast";
import { useSending } from "./sending";
import { inbox } from "./store";

export type Act = "next" | "previous" | "approve" | "reject" | "help";

interface KeyLike {
  key: string;
  ctrlKey: boolean;
  metaKey: boolean;
  altKey: boolean;
  repeat?: boolean;
}

/** What a key does, if anything. `typing` is whether the key goes into a field. */
export function actOf(event: KeyLike, typing: boolean): Act | undefined {
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return undefined;
  switch (event.key) {
    case "j":
      return "next";
    case "k":
      return "previous";
    case "a":
      return event.repeat ? undefined : "approve";
    case "r":
      return event.repeat ? undefined : "reject";
    case "?":
      return "help";
    default:
      return undefined;
  }
}

export function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || target.matches("input, textarea, select"));
}

function cardsOnPage(): HTMLElement[] {
  return [...document.querySelectorAll<HTMLElement>("main [data-item]")];
}

function selected(): HTMLElement | null {
  return document.activeElement?.closest<HTMLElement>("[data-item]") ?? null;
}

function move(by: 1 | -1): void {
  const all = cardsOnPage();
  const current = selected();
  const at = current ? all.indexOf(current) : by > 0 ? -1 : all.length;
  const next = all[Math.min(all.length - 1, Math.max(0, at + by))];
  next?.focus({ preventScroll: true });
  next?.scrollIntoView({ block: "nearest" });
}

type Open = { what: "help" } | { what: "approve" | "reject"; item: Approval };

export function Shortcuts() {
  const on = useCell(shortcuts);
  const mayAnswer = useMay("answer");
  const [open, setOpen] = useState<Open>();
  useEffect(() => {
    if (!on) return;
    const listen = (event: KeyboardEvent) => {
      if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
      const act = actOf(event, isTyping(event.target));
      if (!act) return;
      event.preventDefault();
      if (act === "next") return move(1);
      if (act === "previous") return move(-1);
      if (act === "help") return setOpen({ what: "help" });
      const card = selected();
      const item = inbox.value.items.find((i) => i.request_id === card?.dataset["item"]);
      if (mayAnswer && item?.kind === "approval") setOpen({ what: act, item });
      else announce(t.keys.selectFirst);
    };
    document.addEventListener("keydown", listen);
    return () => document.removeEventListener("keydown", listen);
  }, [on, mayAnswer]);

  if (!open) {
    // Beside the heading, for whoever has a keyboard at hand.
    return on && mayAnswer ? (
      <p class="keys-hint">
        <button type="button" class="button quiet small" onClick={() => setOpen({ what: "help" })}>
          <KeyboardIcon />
          {t.keys.show}
        </button>
      </p>
    ) : null;
  }
  const close = () => setOpen(undefined);
  if (open.what === "help") return <ShortcutList onClose={close} />;
  return <Confirm key={open.item.request_id} what={open.what} item={open.item} onClose={close} />;
}

export function ShortcutList(props: { onClose: () => void }) {
  const rows: [string, string][] = [
    ["j", t.keys.next],
    ["k", t.keys.previous],
    ["a", t.keys.approve],
    ["r", t.keys.reject],
    ["?", t.keys.help],
  ];
  return (
    <Dialog title={t.keys.title} onClose={props.onClose}>
      <dl class="keys">
        {rows.map(([key, what]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <p class="hint">{t.keys.off}</p>
      <div class="actions">
        <button type="button" class="button" autofocus onClick={props.onClose}>
          {t.app.close}
        </button>
      </div>
    </Dialog>
  );
}

function Confirm(props: { what: "approve" | "reject"; item: Approval; onClose: () => void }) {
  const { what, item, onClose } = props;
  const { busy, error, send } = useSending(item);
  const [reason, setReason] = useState("");
  const view = useCell(inbox);
  const id = useId();
  const pending = view.items.some((i) => i.request_id === item.request_id);
  const approve = what === "approve";
  return (
    <Dialog title={approve ? t.keys.confirmApprove : t.keys.confirmReject} onClose={onClose}>
      <form
        onSubmit={async (event) => {
          event.preventDefault();
          const text = reason.trim();
          const done = await send(approve ? { decision: "approved" } : { decision: "rejected", ...(text ? { reason: text } : {}) });
          if (done) onClose();
        }}
      >
        <p class="quoted">
          <code class="inline-code">
            <Seen text={item.tool_name} code />
          </code>{" "}
          <Seen text={titleOf(item)} />
        </p>
        {!pending && !busy && (
          <Notice tone="info" alert>
            <p>{t.keys.gone}</p>
          </Notice>
        )}
        {error && (
          <Notice tone="bad" alert>
            <p>{error}</p>
          </Notice>
        )}
        {!approve && pending && (
          <div class="field">
            <label for={id}>
              {t.inbox.reason} <span class="optional">({t.form.optional})</span>
            </label>
            <textarea id={id} rows={2} autofocus value={reason} disabled={busy} onInput={(e) => setReason(e.currentTarget.value)} />
          </div>
        )}
        <div class="actions">
          {pending && (
            <button type="submit" class={approve ? "button primary" : "button danger"} autofocus={approve} disabled={busy}>
              {busy ? t.inbox.sending : approve ? t.inbox.approve : t.inbox.reject}
            </button>
          )}
          <button type="button" class="button quiet" onClick={onClose}>
            {t.app.cancel}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
