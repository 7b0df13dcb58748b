// Rules in force, how questions expire, who may come in, and this page itself.
import { useId } from "preact/hooks";
import { useCell } from "../cell";
import { Keyboard } from "../icons";
import { ShortcutList } from "../inbox/shortcuts";
import { chooseShortcuts, chooseTheme, shortcuts, theme, type Theme } from "../prefs";
import { session, signOut, useIsDevice, useMay } from "../session";
import { t } from "../strings";
import type { Session } from "../types";
import { PageHead, Switch } from "../ui/bits";
import { useState } from "preact/hooks";
import { sentence } from "../api";
import { toast } from "../ui/toast";
import { Asking, Bypasses } from "./rules";
import { Sessions, Tokens } from "./access";

export function SettingsPage() {
  const admin = useMay("administer");
  const state = useCell(session);
  const device = useIsDevice();
  return (
    <>
      <PageHead title={t.settings.title} />
      <Bypasses admin={admin} />
      {admin && (
        <>
          <Asking />
          <Tokens />
          <Sessions />
        </>
      )}
      <ThisPage />
      {state.phase === "in" && <About session={state.session} canLeave={!device} />}
    </>
  );
}

function ThisPage() {
  const chosen = useCell(theme);
  const keys = useCell(shortcuts);
  const [list, setList] = useState(false);
  const id = useId();
  return (
    <section class="section" aria-labelledby="this-page">
      <h2 id="this-page">{t.settings.page}</h2>
      <fieldset class="field">
        <legend>{t.settings.theme}</legend>
        <div class="segmented">
          {(["system", "light", "dark"] as Theme[]).map((choice) => (
            <label key={choice}>
              <input type="radio" name={id} checked={chosen === choice} onChange={() => chooseTheme(choice)} />
              <span>{t.settings.themes[choice]}</span>
            </label>
          ))}
        </div>
      </fieldset>
      <div class="field">
        <Switch checked={keys} label={t.settings.shortcuts} visible={t.settings.shortcuts} onChange={chooseShortcuts} />
        <p class="hint">{t.settings.shortcutsHelp}</p>
        <button type="button" class="button quiet small" onClick={() => setList(true)}>
          <Keyboard />
          {t.keys.show}
        </button>
        {list && <ShortcutList onClose={() => setList(false)} />}
      </div>
    </section>
  );
}

function About(props: { session: Session; canLeave: boolean }) {
  const { principal, version } = props.session;
  const who = principal.kind === "owner" ? t.settings.who.owner : principal.kind === "token" ? t.settings.who.token(principal.name ?? "") : t.settings.who.device(principal.name ?? "");
  return (
    <section class="section" aria-labelledby="about">
      <h2 id="about">{t.settings.about}</h2>
      <dl class="facts">
        <div>
          <dt>{t.settings.version}</dt>
          <dd>{version}</dd>
        </div>
        <div>
          <dt>{t.settings.signedInAs}</dt>
          <dd>{who}</dd>
        </div>
      </dl>
      {props.canLeave && (
        <button
          type="button"
          class="button"
          onClick={() => {
            signOut().catch((e: unknown) => toast(sentence(e)));
          }}
        >
          {t.settings.signOut}
        </button>
      )}
    </section>
  );
}
