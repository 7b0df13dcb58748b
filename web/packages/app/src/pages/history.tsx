// What was asked before, and what became of it.
import { useCallback, useEffect, useId, useRef, useState } from "preact/hooks";
import { call, isRecord, paths, sentence } from "../api";
import { useNow } from "../clock";
import { actor, ending, exactly, outcomeWord, titleOf, when } from "../format";
import { Chevron, HistoryIcon } from "../icons";
import { ItemBody, KindIcon } from "../inbox/body";
import { on } from "../live";
import { t } from "../strings";
import type { HistoryEntry, HistoryPage as Page, Item, LateAnswer } from "../types";
import { LoadError, Loading, PageHead } from "../ui/bits";
import { Seen } from "../ui/mono";

const LIMIT = 30;

function address(before?: string | number): string {
  const query = new URLSearchParams({ limit: String(LIMIT) });
  if (before !== undefined) query.set("before", String(before));
  return `${paths.history}?${query.toString()}`;
}

/** Puts a fresh first page before what was loaded already, without doubles. */
export function merge(fresh: HistoryEntry[], old: HistoryEntry[]): HistoryEntry[] {
  const ids = new Set(fresh.map((e) => e.request_id));
  return [...fresh, ...old.filter((e) => !ids.has(e.request_id))];
}

interface State {
  items: HistoryEntry[];
  next?: string | number;
  loaded: boolean;
  error?: unknown;
}

export function HistoryPage() {
  const [state, setState] = useState<State>({ items: [], loaded: false });
  const [more, setMore] = useState(false);
  const alive = useRef(true);

  const refresh = useCallback(async () => {
    try {
      const page = await call<Page>("GET", address());
      if (!alive.current) return;
      setState((s) => ({
        items: merge(page.items, s.items),
        // Once older pages are open, their end stays the end.
        next: s.items.length > page.items.length ? s.next : (page.next ?? undefined),
        loaded: true,
      }));
    } catch (error) {
      if (alive.current) setState((s) => ({ ...s, error }));
    }
  }, []);

  useEffect(() => {
    alive.current = true;
    void refresh();
    const off = on("inbox", () => void refresh());
    return () => {
      alive.current = false;
      off();
    };
  }, [refresh]);

  const older = async () => {
    if (state.next === undefined || more) return;
    setMore(true);
    try {
      const page = await call<Page>("GET", address(state.next));
      setState((s) => ({ items: merge(s.items, page.items), next: page.next ?? undefined, loaded: true }));
    } catch (error) {
      setState((s) => ({ ...s, error }));
    }
    setMore(false);
  };

  return (
    <>
      <PageHead title={t.history.title} lead={t.history.lead} />
      {state.error !== undefined && <LoadError text={sentence(state.error)} onRetry={() => void (state.loaded && state.next !== undefined ? older() : refresh())} />}
      {!state.loaded && state.error === undefined && <Loading />}
      {state.loaded && state.items.length === 0 && (
        <section class="empty small-empty">
          <HistoryIcon />
          <h2>{t.history.empty}</h2>
          <p>{t.history.emptyHelp}</p>
        </section>
      )}
      {state.items.length > 0 && (
        <>
          <ul class="history">
            {state.items.map((entry) => (
              <Entry key={entry.request_id} entry={entry} />
            ))}
          </ul>
          {state.next !== undefined ? (
            <button type="button" class="button" disabled={more} onClick={() => void older()}>
              {more ? t.history.loadingMore : t.history.more}
            </button>
          ) : (
            <p class="hint center">{t.history.end}</p>
          )}
        </>
      )}
    </>
  );
}

/** The item as it was shown, made whole: fields that history leaves out come from the entry. */
export function itemOf(entry: HistoryEntry): Item | undefined {
  if (!isRecord(entry.item)) return undefined;
  return { request_id: entry.request_id, created_at: entry.created_at, ...entry.item, kind: entry.kind } as unknown as Item;
}

function Entry(props: { entry: HistoryEntry }) {
  const { entry } = props;
  const [open, setOpen] = useState(false);
  const now = useNow(60_000);
  const id = useId();
  const item = itemOf(entry);
  const end = ending(entry.state, entry.outcome);
  const at = entry.ended_at ?? entry.created_at;
  const late = entry.late_answers ?? [];
  return (
    <li class={`entry ${entry.kind}`} data-history={entry.request_id}>
      <h2>
        <button type="button" aria-expanded={open} aria-controls={id} onClick={() => setOpen(!open)}>
          <KindIcon kind={entry.kind} />
          <span class="entry-title" dir="auto">
            <span class="visually-hidden">{t.kinds[entry.kind]}: </span>
            <Seen text={item ? titleOf(item) : t.kinds[entry.kind]} />
          </span>
          <span class={`verdict ${end.tone}`}>{end.text}</span>
          <span class="entry-meta">
            {entry.state === "resolved" && entry.resolved_by !== undefined && <span>{t.history.by(actor(entry.resolved_by))}</span>}
            <time dateTime={new Date(at).toISOString()} title={exactly(at)}>
              {when(at, now)}
            </time>
            {late.length > 0 && <span>{t.history.late(late.length)}</span>}
          </span>
          <Chevron />
        </button>
      </h2>
      <div id={id} class="entry-body" hidden={!open}>
        {open && <Details entry={entry} item={item} />}
      </div>
    </li>
  );
}

function Details(props: { entry: HistoryEntry; item?: Item }) {
  const { entry, item } = props;
  const late = entry.late_answers ?? [];
  return (
    <>
      <dl class="facts">
        <div>
          <dt>{t.history.asked}</dt>
          <dd>{exactly(entry.created_at)}</dd>
        </div>
        {entry.ended_at !== undefined && (
          <div>
            <dt>{t.history.ended}</dt>
            <dd>{exactly(entry.ended_at)}</dd>
          </div>
        )}
        {entry.outcome?.reason && (
          <div>
            <dt>{t.history.reason}</dt>
            <dd class="prose">{entry.outcome.reason}</dd>
          </div>
        )}
        {entry.outcome?.answer !== undefined && (
          <div>
            <dt>{t.history.answer}</dt>
            <dd class="prose">{entry.outcome.answer}</dd>
          </div>
        )}
      </dl>
      {entry.kind === "elicitation" && entry.outcome?.action === "accept" && <p class="hint">{t.history.content}</p>}
      {item ? <ItemBody item={item} level={3} /> : <p class="hint">{t.history.gone}</p>}
      {late.length > 0 && (
        <section class="part">
          <h3>{t.history.late(late.length)}</h3>
          <p class="hint">{t.history.lateHelp}</p>
          <ul class="late">
            {late.map((answer, i) => (
              <Late key={i} answer={answer} />
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

function Late(props: { answer: LateAnswer }) {
  const { by, at, outcome } = props.answer;
  return (
    <li>
      {t.history.lateLine(outcomeWord(outcome).text, actor(by))}
      {at !== undefined && (
        <>
          {", "}
          <time dateTime={new Date(at).toISOString()}>{exactly(at)}</time>
        </>
      )}
      {outcome?.answer !== undefined && <p class="prose">{outcome.answer}</p>}
      {outcome?.reason && <p class="prose">{outcome.reason}</p>}
    </li>
  );
}
