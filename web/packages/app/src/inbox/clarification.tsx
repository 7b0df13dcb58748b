// A question: suggested answers at a press, or one's own words.
import { useId, useRef, useState } from "preact/hooks";
import { t } from "../strings";
import type { Clarification } from "../types";
import { Notice } from "../ui/bits";
import { Seen } from "../ui/mono";
import { titleId } from "./ids";
import { useDraft } from "./drafts";
import { useSending } from "./sending";

export function ClarificationActions(props: { item: Clarification }) {
  const { item } = props;
  const { busy, error, send } = useSending(item);
  const [text, setText] = useDraft(item.request_id, "answer");
  const [empty, setEmpty] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const id = useId();
  const suggested = item.suggested_answers ?? [];
  return (
    <div class="answer">
      {error && (
        <Notice tone="bad" alert>
          <p>{error}</p>
        </Notice>
      )}
      {suggested.length > 0 && (
        <div class="suggestions" role="group" aria-label={t.inbox.suggested}>
          {suggested.map((answer, i) => (
            <button type="button" key={i} class="button choice" dir="auto" disabled={busy} aria-describedby={titleId(item.request_id)} onClick={(e) => void send({ answer }, e)}>
              <Seen text={answer} />
            </button>
          ))}
        </div>
      )}
      <form
        class="own-answer"
        onSubmit={(event) => {
          event.preventDefault();
          if (text.trim() === "") {
            setEmpty(true);
            field.current?.focus();
            return;
          }
          void send({ answer: text.trim() });
        }}
      >
        <label for={id}>{suggested.length > 0 ? t.inbox.orOwnAnswer : t.inbox.ownAnswer}</label>
        <textarea
          id={id}
          ref={field}
          rows={2}
          value={text}
          disabled={busy}
          aria-invalid={empty || undefined}
          aria-describedby={empty ? `${id}-error` : undefined}
          onInput={(e) => {
            setEmpty(false);
            setText(e.currentTarget.value);
          }}
          onKeyDown={(e) => {
            if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) e.currentTarget.form?.requestSubmit();
          }}
        />
        {empty && (
          <p class="field-error" id={`${id}-error`}>
            {t.inbox.emptyAnswer}
          </p>
        )}
        <div class="actions">
          <button type="submit" class="button primary" disabled={busy} aria-describedby={titleId(item.request_id)}>
            {busy ? t.inbox.sending : t.inbox.send}
          </button>
        </div>
      </form>
    </div>
  );
}
