// Who may come in: tokens of scripts, and browsers that are signed in.
import { useId, useRef, useState } from "preact/hooks";
import { ApiError, call, paths, sentence } from "../api";
import { useNow } from "../clock";
import { when } from "../format";
import { useResource } from "../resource";
import { t } from "../strings";
import type { ApiToken, WebSession } from "../types";
import { Ago, CopyButton, LoadError, Loading } from "../ui/bits";
import { Dialog } from "../ui/dialog";
import { RevokeDialog } from "../ui/revoke";
import { toast } from "../ui/toast";

export function Tokens() {
  const tokens = useResource<ApiToken[]>(paths.tokens, []);
  const [name, setName] = useState("");
  const [error, setError] = useState<string>();
  const [busy, setBusy] = useState(false);
  const [made, setMade] = useState<{ name: string; token: string }>();
  const [revoking, setRevoking] = useState<string>();
  const input = useRef<HTMLInputElement>(null);
  const id = useId();

  const create = async () => {
    const wanted = name.trim();
    if (wanted === "") {
      setError(t.settings.tokenNameBad);
      input.current?.focus();
      return;
    }
    setBusy(true);
    setError(undefined);
    try {
      setMade(await call<{ name: string; token: string }>("POST", paths.tokens, { name: wanted }));
      setName("");
      await tokens.reload();
    } catch (e) {
      setError(e instanceof ApiError && e.fields[0] ? e.fields[0].message : sentence(e));
    }
    setBusy(false);
  };

  return (
    <section class="section" aria-labelledby="tokens">
      <h2 id="tokens">{t.settings.tokens}</h2>
      <p class="hint">{t.settings.tokensHelp}</p>
      {tokens.error !== undefined && <LoadError text={sentence(tokens.error)} onRetry={() => void tokens.reload()} />}
      {tokens.loading && !tokens.data && <Loading />}
      {tokens.data?.length === 0 && <p>{t.settings.tokensEmpty}</p>}
      {tokens.data && tokens.data.length > 0 && (
        <ul class="rows">
          {tokens.data.map((x) => (
            <li class="row" key={x.name}>
              <div class="row-main">
                <h3>{x.name}</h3>
                <p class="meta">
                  <Ago at={x.created_at} wrap={t.settings.created} />
                  {x.last_used ? <Ago at={x.last_used} wrap={t.settings.lastUsed} /> : <span>{t.settings.neverUsed}</span>}
                </p>
              </div>
              <div class="row-actions">
                <button type="button" class="button danger small" aria-label={t.settings.revokeOf(x.name)} onClick={() => setRevoking(x.name)}>
                  {t.settings.revoke}
                </button>
              </div>
            </li>
          ))}
        </ul>
      )}
      <form
        class="inline-form"
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          void create();
        }}
      >
        <div class="field">
          <label for={id}>{t.settings.tokenName}</label>
          <input id={id} ref={input} type="text" maxLength={64} autocomplete="off" autocapitalize="none" spellcheck={false} value={name} disabled={busy} aria-invalid={error ? true : undefined} aria-describedby={`${id}-help${error ? ` ${id}-error` : ""}`} onInput={(e) => setName(e.currentTarget.value)} />
          <p class="hint" id={`${id}-help`}>
            {t.settings.tokenNameHelp}
          </p>
          {error && (
            <p class="field-error" id={`${id}-error`}>
              {error}
            </p>
          )}
        </div>
        <div class="actions">
          <button type="submit" class="button" disabled={busy}>
            {t.settings.tokenCreate}
          </button>
        </div>
      </form>
      {made && (
        <Dialog title={t.settings.tokenMade(made.name)} onClose={() => setMade(undefined)}>
          <p>{t.settings.tokenOnce}</p>
          <div class="command">
            <code aria-label={t.settings.tokenValue}>{made.token}</code>
            <CopyButton text={made.token} />
          </div>
          <div class="actions">
            <button type="button" class="button primary" autofocus onClick={() => setMade(undefined)}>
              {t.settings.tokenDone}
            </button>
          </div>
        </Dialog>
      )}
      {revoking !== undefined && <RevokeToken name={revoking} onDone={() => setRevoking(undefined)} reload={tokens.reload} />}
    </section>
  );
}

function RevokeToken(props: { name: string; onDone: () => void; reload: () => Promise<void> }) {
  const { name, ...rest } = props;
  const words = { title: t.settings.revokeTitle(name), text: t.settings.revokeText, button: t.settings.revoke, done: t.settings.revoked(name) };
  return <RevokeDialog {...words} path={`${paths.tokens}/${encodeURIComponent(name)}`} {...rest} />;
}

export function Sessions() {
  const sessions = useResource<WebSession[]>(paths.sessions, []);
  const now = useNow(60_000);
  const end = async (s: WebSession) => {
    try {
      await call("DELETE", `${paths.sessions}/${encodeURIComponent(s.id)}`);
      toast(t.settings.sessionEnded);
    } catch (e) {
      if (!(e instanceof ApiError && e.status === 404)) toast(sentence(e));
    }
    await sessions.reload();
  };
  return (
    <section class="section" aria-labelledby="sessions">
      <h2 id="sessions">{t.settings.sessions}</h2>
      <p class="hint">{t.settings.sessionsHelp}</p>
      {sessions.error !== undefined && <LoadError text={sentence(sessions.error)} onRetry={() => void sessions.reload()} />}
      {sessions.loading && !sessions.data && <Loading />}
      {sessions.data && (
        <ul class="rows">
          {sessions.data.map((s) => (
            <li class="row" key={s.id}>
              <div class="row-main">
                <h3>{s.current ? t.settings.thisSession : t.settings.aSession}</h3>
                <p class="meta">
                  <Ago at={s.created_at} wrap={t.settings.signedIn} />
                  {s.last_used && <Ago at={s.last_used} wrap={t.settings.active} />}
                </p>
              </div>
              {!s.current && (
                <div class="row-actions">
                  <button type="button" class="button danger small" aria-label={t.settings.endSessionOf(when(s.created_at, now))} onClick={() => void end(s)}>
                    {t.settings.endSession}
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
