// Commands, code, diffs and JSON: monospaced, whole, wrapped. What is very long scrolls in a frame of its own, which can
// be opened to full height.
import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { t } from "../strings";
import { diffLines, jsonTokens, visible } from "./visible";

/** Text in which nothing can hide. */
export function Seen(props: { text: string; code?: boolean }) {
  return (
    <>
      {visible(props.text, props.code === true).map((s, i) =>
        "text" in s ? (
          s.text
        ) : (
          <span key={i} class="unseen" title={t.blocks.invisible(s.code)}>
            {s.code}
          </span>
        ),
      )}
    </>
  );
}

export function Mono(props: { label: string; children: ComponentChildren; lines?: number; prompt?: boolean }) {
  const ref = useRef<HTMLPreElement>(null);
  const [tall, setTall] = useState(false);
  const [open, setOpen] = useState(false);
  const id = useId();
  useLayoutEffect(() => {
    const pre = ref.current;
    if (!pre) return;
    const measure = () => {
      if (!open) setTall(pre.scrollHeight > pre.clientHeight + 1);
    };
    measure();
    const watcher = new ResizeObserver(measure);
    watcher.observe(pre);
    return () => watcher.disconnect();
  }, [open]);
  return (
    <div class="mono-frame">
      <pre ref={ref} id={id} dir="ltr" class={`mono${open ? " open" : ""}${props.prompt ? " prompt" : ""}`} {...(tall && !open ? { tabIndex: 0, role: "region", "aria-label": t.blocks.scroll(props.label) } : {})}>
        {props.children}
      </pre>
      {tall && (
        <div class="mono-foot">
          {props.lines !== undefined && <span>{t.blocks.lines(props.lines)}</span>}
          <button type="button" class="link-button" aria-expanded={open} aria-controls={id} onClick={() => setOpen(!open)}>
            {open ? t.blocks.collapse : t.blocks.expand}
          </button>
        </div>
      )}
    </div>
  );
}

const lineCount = (text: string) => text.split("\n").length;

export function Code(props: { text: string; label: string; prompt?: boolean }) {
  return (
    <Mono label={props.label} lines={lineCount(props.text)} prompt={props.prompt}>
      <code>
        <Seen text={props.text} code />
      </code>
    </Mono>
  );
}

export function Diff(props: { text: string; label: string }) {
  const lines = diffLines(props.text);
  return (
    <Mono label={props.label} lines={lines.length}>
      <code>
        {lines.map((l, i) => (
          <span key={i} class={`diff-line ${l.kind}`}>
            <Seen text={l.text} code />
            {"\n"}
          </span>
        ))}
      </code>
    </Mono>
  );
}

export function Json(props: { value: unknown; label: string }) {
  const tokens = jsonTokens(props.value);
  return (
    <Mono label={props.label} lines={lineCount(tokens.map((x) => x.text).join(""))}>
      <code>
        {tokens.map((x, i) => (
          <span key={i} class={`json-${x.kind}`}>
            <Seen text={x.text} code />
          </span>
        ))}
      </code>
    </Mono>
  );
}
