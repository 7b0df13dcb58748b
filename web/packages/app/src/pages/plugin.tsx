// One plugin: its state, its switch, and its settings drawn from its schema.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, call, paths, sentence } from "../api";
import { spread } from "../forms/errors";
import { FieldInput } from "../forms/fields";
import { fieldsOf, initialValues, readValues, type Errors, type Value, type Values } from "../forms/schema";
import { useResource } from "../resource";
import { Link } from "../router";
import { useMay } from "../session";
import { t } from "../strings";
import type { ConnectorStatus, Plugin } from "../types";
import { LoadError, Loading, Notice, PageHead } from "../ui/bits";
import { toast } from "../ui/toast";
import { PluginStatusLine, PluginSwitch } from "./plugins";

export function PluginPage(props: { id: string }) {
  const plugin = useResource<Plugin>(paths.plugin(props.id), ["plugins"]);
  const admin = useMay("administer");
  const [error, setError] = useState<string>();
  const p = plugin.data;
  const missing = plugin.error instanceof ApiError && plugin.error.status === 404;
  return (
    <>
      <p class="crumbs">
        <Link href="/plugins">← {t.plugins.back}</Link>
      </p>
      {!p && (
        <>
          <PageHead title={missing ? t.app.notFound : t.plugins.title} />
          {missing ? <p>{t.plugins.unknown}</p> : plugin.error !== undefined ? <LoadError text={sentence(plugin.error)} onRetry={() => void plugin.reload()} /> : <Loading />}
        </>
      )}
      {p && (
        <>
          <PageHead title={p.name} lead={p.description}>
            {admin && <PluginSwitch plugin={p} reload={plugin.reload} onError={setError} />}
          </PageHead>
          {error && (
            <Notice tone="bad" alert>
              <p>{error}</p>
            </Notice>
          )}
          <section class="section" aria-labelledby="status">
            <h2 id="status">{t.plugins.status}</h2>
            <div aria-live="polite">
              <PluginStatusLine plugin={p} />
            </div>
            {p.id === "mobile-connector" && p.enabled && <ConnectorFacts />}
          </section>
          <section class="section" aria-labelledby="settings">
            <h2 id="settings">{t.plugins.settings}</h2>
            <ConfigForm plugin={p} admin={admin} reload={plugin.reload} />
          </section>
        </>
      )}
    </>
  );
}

function ConnectorFacts() {
  const status = useResource<ConnectorStatus>(paths.connectorStatus, ["plugins", "devices"]);
  const s = status.data;
  return (
    <>
      {s && (
        <dl class="facts">
          {s.relay_url && (
            <div>
              <dt>{t.plugins.relay}</dt>
              <dd>
                <code class="inline-code">{s.relay_url}</code>
              </dd>
            </div>
          )}
          {s.namespace_id && (
            <div>
              <dt>{t.plugins.namespace}</dt>
              <dd>
                <code class="inline-code">{s.namespace_id}</code>
              </dd>
            </div>
          )}
        </dl>
      )}
      <p>
        <Link href="/devices">{t.plugins.devicesLink}</Link>
      </p>
    </>
  );
}

function ConfigForm(props: { plugin: Plugin; admin: boolean; reload: () => Promise<void> }) {
  const { plugin: p, admin } = props;
  const schemaKey = JSON.stringify(p.schema);
  const configKey = JSON.stringify(p.config ?? {});
  const fields = useMemo(() => fieldsOf(p.schema), [schemaKey]);
  const fresh = useMemo(() => initialValues(fields, p.config ?? {}), [fields, configKey]);
  const [values, setValues] = useState<Values>(fresh);
  const [base, setBase] = useState(configKey);
  const [dirty, setDirty] = useState(false);
  const [errors, setErrors] = useState<Errors>({});
  const [general, setGeneral] = useState<string>();
  const [busy, setBusy] = useState(false);
  const form = useRef<HTMLFormElement>(null);

  // A change from elsewhere is taken over at once, unless one is editing: then it is only told of.
  useEffect(() => {
    if (dirty || configKey === base) return;
    setValues(fresh);
    setBase(configKey);
  }, [configKey, dirty]);

  if (fields.length === 0) return <p class="hint">{t.plugins.noSettings}</p>;

  const set = (name: string, value: Value) => {
    setDirty(true);
    setValues((v) => ({ ...v, [name]: value }));
    setErrors(({ [name]: _, ...rest }) => rest);
  };

  const toFirstError = () => requestAnimationFrame(() => form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus());

  const save = async () => {
    const read = readValues(fields, values);
    setErrors(read.errors);
    setGeneral(undefined);
    if (Object.keys(read.errors).length > 0) {
      setGeneral(t.plugins.fix);
      return toFirstError();
    }
    // The settings are replaced as a whole: what this form does not show is sent back as it was.
    const known = new Set(fields.map((f) => f.name));
    const rest = Object.fromEntries(Object.entries(p.config ?? {}).filter(([k]) => !known.has(k)));
    setBusy(true);
    try {
      await call("PUT", paths.plugin(p.id), { config: { ...rest, ...read.content } });
      toast(t.plugins.saved);
      setDirty(false);
      await props.reload();
    } catch (e) {
      if (e instanceof ApiError && e.fields.length > 0) {
        const told = spread(e.fields, [...known]);
        setErrors(told.fields);
        setGeneral([...(Object.keys(told.fields).length > 0 ? [t.plugins.fix] : []), ...told.rest].join(" "));
        toFirstError();
      } else setGeneral(sentence(e));
    }
    setBusy(false);
  };

  return (
    <form
      ref={form}
      class="config"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
    >
      {dirty && configKey !== base && (
        <Notice tone="warn">
          <p>{t.plugins.changedElsewhere}</p>
        </Notice>
      )}
      {fields.map((f) => (
        <FieldInput key={f.name} field={f} value={values[f.name] ?? ""} error={errors[f.name]} disabled={busy || !admin} onInput={(v) => set(f.name, v)} />
      ))}
      {general && (
        <Notice tone="bad" alert>
          <p>{general}</p>
        </Notice>
      )}
      {admin && (
        <div class="actions">
          <button type="submit" class="button primary" disabled={busy}>
            {busy ? t.plugins.saving : t.plugins.save}
          </button>
          {dirty && (
            <button
              type="button"
              class="button quiet"
              disabled={busy}
              onClick={() => {
                setValues(fresh);
                setBase(configKey);
                setErrors({});
                setGeneral(undefined);
                setDirty(false);
              }}
            >
              {t.plugins.revert}
            </button>
          )}
        </div>
      )}
    </form>
  );
}
