// One card of the Inbox: head, what is asked, and the means to answer, or how it ended.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { useNow } from "../clock";
import { actor, ending, exactly, span } from "../format";
import { Clock } from "../icons";
import { t } from "../strings";
import type { Item } from "../types";
import { Ago, CopyButton } from "../ui/bits";
import { useMay } from "../session";
import { ApprovalActions } from "./approval";
import { ItemBody, ItemTitle, KindIcon } from "./body";
import { ClarificationActions } from "./clarification";
import { ElicitationActions } from "./elicitation";
import { titleId } from "./ids";
import type { Closed } from "./reconcile";
import { dismiss } from "./store";

function TimeLeft(props: { until: number }) {
  const coarse = useNow(15_000);
  const soon = props.until - coarse < 120_000;
  return soon ? <Fine until={props.until} /> : <LeftText ms={props.until - coarse} until={props.until} soon={false} />;
}

function Fine(props: { until: number }) {
  const now = useNow(1000);
  return <LeftText ms={props.until - now} until={props.until} soon />;
}

function LeftText(props: { ms: number; until: number; soon: boolean }) {
  return (
    <span class={props.soon ? "left soon" : "left"} title={exactly(props.until)}>
      <Clock />
      {props.ms <= 0 ? t.inbox.lapsing : t.inbox.left(span(props.ms))}
    </span>
  );
}

function Shell(props: { item: Item; closed: boolean; children: ComponentChildren; aside?: ComponentChildren }) {
  const { item } = props;
  const ref = useRef<HTMLElement>(null);
  const had = useRef(false);
  // When the card closes under the hands of whoever works on it, its controls vanish; the card itself takes the focus
  // so that neither keyboard nor reader is thrown to the top of the page.
  useLayoutEffect(() => {
    if (props.closed && had.current && (document.activeElement === document.body || document.activeElement === null)) ref.current?.focus({ preventScroll: true });
  }, [props.closed]);
  return (
    <article
      ref={ref}
      class={`card ${item.kind}${props.closed ? " closed" : ""}`}
      data-item={item.request_id}
      data-kind={item.kind}
      tabIndex={-1}
      aria-labelledby={titleId(item.request_id)}
      onFocusCapture={() => {
        had.current = true;
      }}
    >
      <header class="card-head">
        <p class="kind">
          <KindIcon kind={item.kind} />
          {t.kinds[item.kind]}
        </p>
        <p class="when">
          <Ago at={item.created_at} wrap={t.inbox.asked} />
          {props.aside}
        </p>
      </header>
      <h3 id={titleId(item.request_id)} dir="auto">
        <ItemTitle item={item} />
      </h3>
      {props.children}
    </article>
  );
}

export function Card(props: { item: Item; closed?: Closed }) {
  const { item, closed } = props;
  const mayAnswer = useMay("answer");
  return (
    <Shell item={item} closed={closed !== undefined} aside={!closed && item.expires_at ? <TimeLeft until={item.expires_at} /> : undefined}>
      {closed ? (
        <ClosedBody closed={closed} />
      ) : (
        <>
          <ItemBody item={item} level={4} />
          {mayAnswer && <Actions item={item} />}
        </>
      )}
    </Shell>
  );
}

function Actions(props: { item: Item }) {
  switch (props.item.kind) {
    case "approval":
      return <ApprovalActions item={props.item} />;
    case "clarification":
      return <ClarificationActions item={props.item} />;
    case "elicitation":
      return <ElicitationActions item={props.item} />;
  }
}

function ClosedBody(props: { closed: Closed }) {
  const { closed } = props;
  const end = closed.ending;
  const word = end ? ending(end.state, end.outcome) : undefined;
  return (
    <div class="closed-body">
      <p class={`verdict ${word?.tone ?? "quiet"}`}>
        <strong>{word?.text ?? t.inbox.closedCard}</strong>
        {end?.state === "resolved" && end.by !== undefined && ` ${t.history.by(actor(end.by))}`}
      </p>
      {end?.outcome?.answer !== undefined && <p class="prose">{end.outcome.answer}</p>}
      {end?.outcome?.reason && <p class="prose">{end.outcome.reason}</p>}
      {closed.late && <p class="hint">{t.inbox.late}</p>}
      {closed.draft && (
        <div class="draft">
          <p class="hint">{t.inbox.draftKept}</p>
          <p class="prose">{closed.draft}</p>
          <CopyButton text={closed.draft} />
        </div>
      )}
      <div class="actions">
        <button type="button" class="button" onClick={() => dismiss(closed.item.request_id)}>
          {t.app.dismiss}
        </button>
      </div>
    </div>
  );
}
