// Approvals that last, and what holds where a question says nothing.
import { useEffect, useId, useState } from "preact/hooks";
import { ApiError, call, paths, sentence } from "../api";
import { useNow } from "../clock";
import { actor, span, when } from "../format";
import { useResource } from "../resource";
import { t } from "../strings";
import type { Bypass, HostSettings } from "../types";
import { LoadError, Loading, Notice } from "../ui/bits";
import { toast } from "../ui/toast";

export function Bypasses(props: { admin: boolean }) {
  const bypasses = useResource<Bypass[]>(paths.bypasses, ["inbox"]);
  const now = useNow(10_000);
  const list = (bypasses.data ?? []).filter((b) => !b.expires_at || b.expires_at > now);
  const end = async (b: Bypass) => {
    try {
      await call("DELETE", `${paths.bypasses}/${encodeURIComponent(String(b.id))}`);
      toast(t.settings.ended(b.tool_name));
    } catch (e) {
      // Already over is what was wanted.
      if (!(e instanceof ApiError && e.status === 404)) toast(sentence(e));
    }
    await bypasses.reload();
  };
  return (
    <section class="section" aria-labelledby="bypasses">
      <h2 id="bypasses">{t.settings.bypasses}</h2>
      <p class="hint">{t.settings.bypassesHelp}</p>
      {bypasses.error !== undefined && <LoadError text={sentence(bypasses.error)} onRetry={() => void bypasses.reload()} />}
      {bypasses.loading && !bypasses.data && <Loading />}
      {bypasses.data && list.length === 0 && <p>{t.settings.bypassesEmpty}</p>}
      {list.length > 0 && (
        <ul class="rows">
          {list.map((b) => (
            <li class="row" key={b.id} data-bypass={b.id}>
              <div class="row-main">
                <h3>
                  <code class="inline-code">{b.tool_name}</code>
                </h3>
                <p class="meta">
                  {b.agent_label && <span>{b.agent_label}</span>}
                  <span>{b.expires_at ? t.settings.bypassUntil(when(b.expires_at, now), span(b.expires_at - now)) : t.settings.bypassSession}</span>
                  <span>{b.uses ? t.settings.bypassUses(b.uses) : t.settings.bypassUnused}</span>
                  {b.created_by !== undefined && <span>{t.settings.bypassBy(actor(b.created_by))}</span>}
                </p>
              </div>
              {props.admin && (
                <div class="row-actions">
                  <button type="button" class="button danger small" aria-label={t.settings.endNowOf(b.tool_name)} onClick={() => void end(b)}>
                    {t.settings.endNow}
                  </button>
                </div>
              )}
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

const UNITS = { minutes: 60, hours: 3600, days: 86_400 } as const;
type Unit = keyof typeof UNITS;

/** The largest unit that divides the span without a rest. */
export function unitOf(secs: number): Unit {
  return secs % UNITS.days === 0 ? "days" : secs % UNITS.hours === 0 ? "hours" : "minutes";
}

export function Asking() {
  const settings = useResource<HostSettings>(paths.settings, []);
  return (
    <section class="section" aria-labelledby="asking">
      <h2 id="asking">{t.settings.asking}</h2>
      {settings.error !== undefined && <LoadError text={sentence(settings.error)} onRetry={() => void settings.reload()} />}
      {settings.loading && !settings.data && <Loading />}
      {settings.data && <AskingForm settings={settings.data} reload={settings.reload} />}
    </section>
  );
}

function AskingForm(props: { settings: HostSettings; reload: () => Promise<void> }) {
  const s = props.settings;
  const [unit, setUnit] = useState<Unit>(unitOf(s.default_timeout_secs));
  const [amount, setAmount] = useState(String(s.default_timeout_secs / UNITS[unitOf(s.default_timeout_secs)]));
  const [days, setDays] = useState(String(s.history_days));
  const [errors, setErrors] = useState<{ timeout?: string; days?: string; general?: string }>({});
  const [busy, setBusy] = useState(false);
  const id = useId();
  useEffect(() => {
    const u = unitOf(s.default_timeout_secs);
    setUnit(u);
    setAmount(String(s.default_timeout_secs / UNITS[u]));
    setDays(String(s.history_days));
  }, [s.default_timeout_secs, s.history_days]);

  const save = async () => {
    const secs = Math.round(Number(amount.replace(",", ".")) * UNITS[unit]);
    const keep = Number(days);
    const timeout = Number.isFinite(secs) && secs >= 60 && secs <= 366 * UNITS.days ? undefined : t.settings.timeoutBad;
    const daysError = /^\s*\d+\s*$/.test(days) && keep >= 1 ? undefined : t.settings.daysBad;
    setErrors({ timeout, days: daysError });
    if (timeout || daysError) return;
    setBusy(true);
    try {
      await call("PUT", paths.settings, { default_timeout_secs: secs, history_days: keep });
      toast(t.settings.saved);
      await props.reload();
    } catch (e) {
      const fields = e instanceof ApiError ? e.fields : [];
      const of = (name: string) => fields.find((f) => f.field.endsWith(name))?.message;
      setErrors({ timeout: of("default_timeout_secs"), days: of("history_days"), general: fields.length > 0 ? undefined : sentence(e) });
    }
    setBusy(false);
  };

  return (
    <form
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
    >
      {errors.general && (
        <Notice tone="bad" alert>
          <p>{errors.general}</p>
        </Notice>
      )}
      <div class="field">
        <label for={`${id}-t`}>{t.settings.timeout}</label>
        <div class="with-unit">
          <input id={`${id}-t`} type="text" inputMode="decimal" class="short" value={amount} disabled={busy} aria-invalid={errors.timeout ? true : undefined} aria-describedby={`${id}-th${errors.timeout ? ` ${id}-te` : ""}`} onInput={(e) => setAmount(e.currentTarget.value)} />
          <select aria-label={t.settings.unit} value={unit} disabled={busy} onChange={(e) => setUnit(e.currentTarget.value as Unit)}>
            {(Object.keys(UNITS) as Unit[]).map((u) => (
              <option key={u} value={u}>
                {t.settings.units[u]}
              </option>
            ))}
          </select>
        </div>
        <p class="hint" id={`${id}-th`}>
          {t.settings.timeoutHelp}
        </p>
        {errors.timeout && (
          <p class="field-error" id={`${id}-te`}>
            {errors.timeout}
          </p>
        )}
      </div>
      <div class="field">
        <label for={`${id}-d`}>{t.settings.historyDays}</label>
        <div class="with-unit">
          <input id={`${id}-d`} type="text" inputMode="numeric" class="short" value={days} disabled={busy} aria-invalid={errors.days ? true : undefined} aria-describedby={`${id}-dh${errors.days ? ` ${id}-de` : ""}`} onInput={(e) => setDays(e.currentTarget.value)} />
          <span>{t.settings.days}</span>
        </div>
        <p class="hint" id={`${id}-dh`}>
          {t.settings.daysHelp}
        </p>
        {errors.days && (
          <p class="field-error" id={`${id}-de`}>
            {errors.days}
          </p>
        )}
      </div>
      <div class="actions">
        <button type="submit" class="button" disabled={busy}>
          {t.settings.save}
        </button>
      </div>
    </form>
  );
}
