// Sending an answer from a card: one at a time, with what went wrong.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ApiError, sentence } from "../api";
import { t } from "../strings";
import type { Answer, FieldError, Item } from "../types";
import { toast } from "../ui/toast";
import { answer, shiftedAt } from "./store";

/** A press that follows a shift of the list so closely was meant for another card. */
const SHIFT_MS = 700;

export interface Sending {
  busy: boolean;
  error?: string;
  fields: FieldError[];
  /** Sends unless one is on its way; true once the host has taken it or has said who came first. */
  send(body: Answer, event?: { detail?: number }): Promise<boolean>;
}

export function useSending(item: Item): Sending {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string>();
  const [fields, setFields] = useState<FieldError[]>([]);
  const inFlight = useRef(false);
  const alive = useRef(true);
  useEffect(() => {
    alive.current = true;
    return () => {
      alive.current = false;
    };
  }, []);
  const send = useCallback(
    async (body: Answer, event?: { detail?: number }) => {
      if (inFlight.current) return false;
      // `detail` counts pointer clicks; keys, which act on what has the focus, give 0.
      if ((event?.detail ?? 0) > 0 && shiftedAt > 0 && performance.now() - shiftedAt < SHIFT_MS) {
        toast(t.inbox.moved);
        return false;
      }
      inFlight.current = true;
      setBusy(true);
      setError(undefined);
      setFields([]);
      const result = await answer(item, body);
      inFlight.current = false;
      if (!alive.current) return result.ok;
      setBusy(false);
      if (!result.ok) {
        if (result.error instanceof ApiError) {
          setFields(result.error.fields);
          setError(result.error.message);
        } else setError(t.inbox.notSent(sentence(result.error)));
      }
      return result.ok;
    },
    [item],
  );
  return { busy, error, fields, send };
}
