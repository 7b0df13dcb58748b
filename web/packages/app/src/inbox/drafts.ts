// What was typed and not yet sent. Kept beside the cards, so that neither a live update nor a look at another page
// loses it; in memory alone, for it may be a secret.
import { useCallback, useState } from "preact/hooks";

type Value = string | boolean | string[];

const drafts = new Map<string, Map<string, Value>>();
/** Fields that hold a secret: they are never shown back as text. */
const secrets = new Map<string, Set<string>>();

export function hasDraft(id: string): boolean {
  return (drafts.get(id)?.size ?? 0) > 0;
}

export function dropDraft(id: string): void {
  drafts.delete(id);
  secrets.delete(id);
}

export function dropAllDrafts(): void {
  drafts.clear();
  secrets.clear();
}

export function setDraft(id: string, field: string, value: Value | undefined): void {
  let mine = drafts.get(id);
  if (!mine) drafts.set(id, (mine = new Map()));
  if (value === undefined || value === "") mine.delete(field);
  else mine.set(field, value);
  if (mine.size === 0) drafts.delete(id);
}

export function getDraft(id: string, field: string): Value | undefined {
  return drafts.get(id)?.get(field);
}

export function markSecret(id: string, field: string): void {
  let mine = secrets.get(id);
  if (!mine) secrets.set(id, (mine = new Set()));
  mine.add(field);
}

/** All that was typed, secrets left out, to be given back when the item ended first. */
export function typedText(id: string): string | undefined {
  const mine = drafts.get(id);
  if (!mine) return undefined;
  const hidden = secrets.get(id);
  const lines = [...mine].filter(([field, v]) => typeof v === "string" && !hidden?.has(field)).map(([, v]) => v as string);
  return lines.length > 0 ? lines.join("\n") : undefined;
}

/** A text field whose content outlives its card. */
export function useDraft(id: string, field: string): [string, (value: string) => void] {
  const [text, setText] = useState(() => {
    const kept = getDraft(id, field);
    return typeof kept === "string" ? kept : "";
  });
  const set = useCallback(
    (value: string) => {
      setDraft(id, field, value);
      setText(value);
    },
    [id, field],
  );
  return [text, set];
}
