// Small parts that several pages share.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { useNow } from "../clock";
import { ago, exactly } from "../format";
import { Check, CopyIcon, Info, Warning } from "../icons";
import { t } from "../strings";
import { toast } from "./toast";

/** A moment, relative to now, with the exact time on hover. */
export function Ago(props: { at: number; wrap?: (when: string) => string }) {
  const now = useNow(20_000);
  const text = ago(props.at, now);
  const date = new Date(props.at);
  if (Number.isNaN(date.getTime())) return null;
  return (
    <time dateTime={date.toISOString()} title={exactly(props.at)}>
      {props.wrap ? props.wrap(text) : text}
    </time>
  );
}

export function CopyButton(props: { text: string; label?: string }) {
  const [done, setDone] = useState(false);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(props.text);
      setDone(true);
      timer.current = setTimeout(() => setDone(false), 2000);
    } catch {
      toast(t.app.copyFailed);
    }
  };
  return (
    <button type="button" class="button quiet small" onClick={() => void copy()}>
      {done ? <Check /> : <CopyIcon />}
      <span aria-live="polite">{done ? t.app.copied : (props.label ?? t.app.copy)}</span>
    </button>
  );
}

/** A command to type in a terminal, whole, with a button to copy it. */
export function Command(props: { text: string }) {
  return (
    <div class="command">
      <code>{props.text}</code>
      <CopyButton text={props.text} />
    </div>
  );
}

export function Notice(props: { tone: "info" | "warn" | "bad"; title?: string; children?: ComponentChildren; alert?: boolean }) {
  return (
    <div class={`notice ${props.tone}`} role={props.alert ? "alert" : undefined}>
      {props.tone === "info" ? <Info /> : <Warning />}
      <div>
        {props.title && <p class="notice-title">{props.title}</p>}
        {props.children}
      </div>
    </div>
  );
}

/** Something could not be loaded: why, and a way to try again. */
export function LoadError(props: { text: string; onRetry: () => void }) {
  return (
    <Notice tone="bad" alert>
      <p>{props.text}</p>
      <button type="button" class="button small" onClick={props.onRetry}>
        {t.app.retry}
      </button>
    </Notice>
  );
}

export function Loading() {
  return (
    <p class="loading" aria-busy="true">
      {t.app.loading}
    </p>
  );
}

export function PageHead(props: { title: string; lead?: ComponentChildren; children?: ComponentChildren }) {
  return (
    <header class="page-head">
      <div>
        <h1 tabIndex={-1}>{props.title}</h1>
        {props.lead && <p class="lead">{props.lead}</p>}
      </div>
      {props.children && <div class="page-actions">{props.children}</div>}
    </header>
  );
}

/** On or off, at once. */
export function Switch(props: { checked: boolean; label: string; visible?: string; disabled?: boolean; onChange: (on: boolean) => void }) {
  return (
    <button type="button" role="switch" aria-checked={props.checked} aria-label={props.visible === undefined ? props.label : undefined} class="switch" disabled={props.disabled} onClick={() => props.onChange(!props.checked)}>
      <span class="switch-track" aria-hidden="true">
        <span class="switch-thumb" />
      </span>
      {props.visible !== undefined && <span>{props.visible}</span>}
    </button>
  );
}
