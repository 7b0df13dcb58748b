// All plugins at a glance.
import { useState } from "preact/hooks";
import { call, paths, sentence } from "../api";
import { useNow } from "../clock";
import { exactly, when } from "../format";
import { PluginsIcon } from "../icons";
import { useResource } from "../resource";
import { Link } from "../router";
import { useMay } from "../session";
import { t } from "../strings";
import type { Plugin } from "../types";
import { LoadError, Loading, PageHead, Switch } from "../ui/bits";
import { toast } from "../ui/toast";

export function PluginsPage() {
  const plugins = useResource<Plugin[] | { plugins: Plugin[] }>(paths.plugins, ["plugins"]);
  const list = Array.isArray(plugins.data) ? plugins.data : plugins.data?.plugins;
  const admin = useMay("administer");
  return (
    <>
      <PageHead title={t.plugins.title} lead={t.plugins.lead} />
      {plugins.error !== undefined && <LoadError text={sentence(plugins.error)} onRetry={() => void plugins.reload()} />}
      {plugins.loading && !list && <Loading />}
      {list?.length === 0 && (
        <section class="empty small-empty">
          <PluginsIcon />
          <h2>{t.plugins.empty}</h2>
          <p>{t.plugins.emptyHelp}</p>
        </section>
      )}
      {list && list.length > 0 && (
        <ul class="rows">
          {list.map((p) => (
            <li key={p.id} class="row plugin-row" data-plugin={p.id}>
              <div class="row-main">
                <h2>
                  <Link href={`/plugins/${encodeURIComponent(p.id)}`}>{p.name}</Link>
                </h2>
                <p>{p.description}</p>
                <PluginStatusLine plugin={p} />
              </div>
              {admin && (
                <div class="row-actions">
                  <PluginSwitch plugin={p} reload={plugins.reload} />
                </div>
              )}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

export function PluginStatusLine(props: { plugin: Plugin }) {
  const { state, message, since } = props.plugin.status;
  const now = useNow(60_000);
  return (
    <p class={`plugin-status ${state}`}>
      <span class="pill">
        <span class="dot" aria-hidden="true" />
        {t.plugins.states[state] ?? state}
      </span>
      {message && <span class="message">{message}</span>}
      {since > 0 && (
        <time class="faint" dateTime={new Date(since).toISOString()} title={exactly(since)}>
          {t.plugins.since(when(since, now))}
        </time>
      )}
    </p>
  );
}

export function PluginSwitch(props: { plugin: Plugin; reload: () => Promise<void>; onError?: (text: string | undefined) => void }) {
  const { plugin: p } = props;
  const [busy, setBusy] = useState(false);
  const flip = async (enabled: boolean) => {
    setBusy(true);
    props.onError?.(undefined);
    try {
      await call("PUT", paths.plugin(p.id), { enabled });
      toast(enabled ? t.plugins.nowOn(p.name) : t.plugins.nowOff(p.name));
    } catch (e) {
      if (props.onError) props.onError(sentence(e));
      else toast(sentence(e));
    }
    await props.reload();
    setBusy(false);
  };
  return <Switch checked={p.enabled} label={t.plugins.enable(p.name)} disabled={busy} onChange={(on) => void flip(on)} />;
}
