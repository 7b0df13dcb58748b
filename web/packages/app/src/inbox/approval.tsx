// Approve, reject, or approve for longer.
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Check, Cross } from "../icons";
import { t } from "../strings";
import type { Approval } from "../types";
import { Notice } from "../ui/bits";
import { titleId } from "./ids";
import { getDraft, useDraft } from "./drafts";
import { useSending } from "./sending";

/** Seconds of "approve for 15 minutes"; 0 stands for the source's session. */
export const QUARTER_HOUR = 900;

export function ApprovalActions(props: { item: Approval }) {
  const { item } = props;
  const { busy, error, send } = useSending(item);
  const [reason, setReason] = useDraft(item.request_id, "reason");
  const [asking, setAsking] = useState(() => getDraft(item.request_id, "reason") !== undefined);
  const field = useRef<HTMLTextAreaElement>(null);
  const opener = useRef<HTMLButtonElement>(null);
  const focusNext = useRef<"field" | "opener" | undefined>(undefined);
  const id = useId();
  // Before the next paint: nothing typed by somebody quick may go elsewhere.
  useLayoutEffect(() => {
    if (focusNext.current === "field") field.current?.focus();
    if (focusNext.current === "opener") opener.current?.focus();
    focusNext.current = undefined;
  }, [asking]);
  const of = titleId(item.request_id);

  return (
    <div class="answer">
      {error && (
        <Notice tone="bad" alert>
          <p>{error}</p>
        </Notice>
      )}
      {asking ? (
        <form
          class="reason"
          onSubmit={(event) => {
            event.preventDefault();
            const text = reason.trim();
            void send({ decision: "rejected", ...(text === "" ? {} : { reason: text }) });
          }}
        >
          <label for={id}>{t.inbox.reason}</label>
          <textarea id={id} ref={field} rows={2} value={reason} disabled={busy} aria-describedby={`${id}-help`} onInput={(e) => setReason(e.currentTarget.value)} />
          <p class="hint" id={`${id}-help`}>
            {t.inbox.reasonHelp}
          </p>
          <div class="actions">
            <button type="submit" class="button danger" disabled={busy} aria-describedby={of}>
              <Cross />
              {busy ? t.inbox.sending : t.inbox.rejectNow}
            </button>
            <button
              type="button"
              class="button"
              disabled={busy}
              onClick={() => {
                setReason("");
                focusNext.current = "opener";
                setAsking(false);
              }}
            >
              {t.inbox.back}
            </button>
          </div>
        </form>
      ) : (
        <>
          <div class="actions main">
            <button type="button" class="button primary" disabled={busy} aria-describedby={of} onClick={(e) => void send({ decision: "approved" }, e)}>
              <Check />
              {busy ? t.inbox.sending : t.inbox.approve}
            </button>
            <button type="button" class="button danger" disabled={busy} aria-describedby={of} onClick={(e) => void send({ decision: "rejected" }, e)}>
              <Cross />
              {t.inbox.reject}
            </button>
          </div>
          <div class="actions more" role="group" aria-label={t.inbox.moreWays}>
            <button type="button" class="button quiet small" title={t.inbox.approveHelp} disabled={busy} aria-describedby={of} onClick={(e) => void send({ decision: "approved", bypass_secs: QUARTER_HOUR }, e)}>
              {t.inbox.approve15}
            </button>
            {item.session && (
              <button type="button" class="button quiet small" title={t.inbox.approveHelp} disabled={busy} aria-describedby={of} onClick={(e) => void send({ decision: "approved", bypass_secs: 0 }, e)}>
                {t.inbox.approveSession}
              </button>
            )}
            <button
              type="button"
              ref={opener}
              class="button quiet small"
              disabled={busy}
              aria-describedby={of}
              onClick={() => {
                focusNext.current = "field";
                setAsking(true);
              }}
            >
              {t.inbox.rejectReason}
            </button>
          </div>
        </>
      )}
    </div>
  );
}
