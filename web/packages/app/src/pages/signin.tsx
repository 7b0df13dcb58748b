// Before anybody is signed in: what to do.
import { useEffect } from "preact/hooks";
import { Mark } from "../icons";
import { backoff } from "../live";
import { load } from "../session";
import { t } from "../strings";
import { Command } from "../ui/bits";

export function SignInPage(props: { why: "none" | "lapsed" | "left" | "bad-link"; detail?: string }) {
  useEffect(() => {
    document.title = t.signin.title;
  }, []);
  const why = props.why === "lapsed" ? t.signin.lapsed : props.why === "left" ? t.signin.left : props.why === "bad-link" ? t.signin.badLink : t.signin.none;
  return (
    <main class="plain">
      <div class="sheet">
        <Mark />
        <h1>{t.signin.title}</h1>
        {props.detail && <p role="alert">{props.detail}</p>}
        <p role={props.why === "bad-link" || props.why === "lapsed" ? "alert" : undefined}>{why}</p>
        <Command text={t.signin.command} />
        <p class="hint">{t.signin.then}</p>
      </div>
    </main>
  );
}

export function UnreachablePage() {
  useEffect(() => {
    document.title = `${t.signin.unreachable} · ${t.app.name}`;
    let attempt = 0;
    let timer: ReturnType<typeof setTimeout>;
    const again = () => {
      timer = setTimeout(() => void load().then(again), backoff(attempt++));
    };
    again();
    return () => clearTimeout(timer);
  }, []);
  return (
    <main class="plain">
      <div class="sheet">
        <Mark />
        <h1>{t.signin.unreachable}</h1>
        <p role="alert">{t.signin.unreachableHelp}</p>
        <button type="button" class="button" onClick={() => void load()}>
          {t.app.retry}
        </button>
      </div>
    </main>
  );
}
