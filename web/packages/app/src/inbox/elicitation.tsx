// A server asks for input: fill in, decline, or leave it. The three are different answers.
import { useMemo, useRef, useState } from "preact/hooks";
import { spread } from "../forms/errors";
import { FieldInput } from "../forms/fields";
import { initialValues, readValues, type Errors, type Value, type Values } from "../forms/schema";
import { Check } from "../icons";
import { t } from "../strings";
import type { Elicitation } from "../types";
import { Notice } from "../ui/bits";
import { urlParts } from "../ui/blockrows";
import { titleId } from "./ids";
import { getDraft, markSecret, setDraft } from "./drafts";
import { promptFields } from "./prompt";
import { useSending } from "./sending";

export function ElicitationActions(props: { item: Elicitation }) {
  const { item } = props;
  const id = item.request_id;
  const { busy, error, fields: refused, send } = useSending(item);
  const fields = useMemo(() => promptFields(item), [item]);
  const [values, setValues] = useState<Values>(() => {
    const start = initialValues(fields);
    for (const f of fields) {
      if (f.masked) markSecret(id, f.name);
      const kept = getDraft(id, f.name);
      if (kept !== undefined) start[f.name] = kept;
    }
    return start;
  });
  const [errors, setErrors] = useState<Errors>({});
  const form = useRef<HTMLFormElement>(null);
  const of = titleId(id);

  const set = (name: string, value: Value) => {
    setDraft(id, name, value);
    setValues((v) => ({ ...v, [name]: value }));
    setErrors(({ [name]: _, ...rest }) => rest);
  };

  const url = item.mode === "url" ? urlParts(item.url ?? "") : undefined;

  const accept = async (event?: { detail?: number }) => {
    if (item.is_confirmation) return void send({ action: "accept", content: {} }, event);
    if (item.mode === "url") {
      if (!url?.web) return;
      // The window must be opened by the press itself, or the browser takes it for a pop-up.
      window.open(url.before + url.host + url.after, "_blank", "noopener,noreferrer");
      return void send({ action: "accept" }, event);
    }
    const read = readValues(fields, values);
    setErrors(read.errors);
    if (Object.keys(read.errors).length > 0) {
      requestAnimationFrame(() => form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus());
      return;
    }
    await send({ action: "accept", content: read.content });
  };

  const shown: Errors = { ...spread(refused, fields.map((f) => f.name)).fields, ...errors };

  return (
    <form
      ref={form}
      class="answer"
      noValidate
      autocomplete="off"
      onSubmit={(event) => {
        event.preventDefault();
        void accept();
      }}
    >
      {fields.map((f) => (
        <FieldInput key={f.name} field={f} value={values[f.name] ?? ""} error={shown[f.name]} disabled={busy} onInput={(v) => set(f.name, v)} />
      ))}
      {fields.length > 0 && <p class="hint">{item.sensitive ? t.inbox.secretHelp : t.inbox.notForSecrets(item.server_name)}</p>}
      {error && (
        <Notice tone="bad" alert>
          <p>{error}</p>
        </Notice>
      )}
      <div class="actions main">
        {item.is_confirmation || item.mode === "url" ? (
          <button type="button" class="button primary" disabled={busy || (item.mode === "url" && !url?.web)} aria-describedby={of} onClick={(e) => void accept(e)}>
            <Check />
            {busy ? t.inbox.sending : item.mode === "url" ? t.inbox.openAccept : t.inbox.accept}
          </button>
        ) : (
          <button type="submit" class="button primary" disabled={busy} aria-describedby={of}>
            <Check />
            {busy ? t.inbox.sending : t.inbox.accept}
          </button>
        )}
        <button type="button" class="button" disabled={busy} aria-describedby={of} onClick={(e) => void send({ action: "decline" }, e)}>
          {t.inbox.decline}
        </button>
        <button type="button" class="button quiet" disabled={busy} aria-describedby={of} onClick={(e) => void send({ action: "cancel" }, e)}>
          {t.inbox.dismissItem}
        </button>
      </div>
      <p class="hint">{t.inbox.declineHelp}</p>
    </form>
  );
}
