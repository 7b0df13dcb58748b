// Asks once more before something is taken away for good.
import { useState } from "preact/hooks";
import { call, sentence } from "../api";
import { t } from "../strings";
import { Notice } from "./bits";
import { Dialog } from "./dialog";
import { toast } from "./toast";

/** Deletes `path` when confirmed; a refusal is shown and leaves the dialog open. */
export function RevokeDialog(props: { title: string; text: string; button: string; done: string; path: string; onDone: () => void; reload: () => Promise<void> }) {
  const [error, setError] = useState<string>();
  const [busy, setBusy] = useState(false);
  return (
    <Dialog title={props.title} onClose={props.onDone}>
      <p>{props.text}</p>
      {error && (
        <Notice tone="bad" alert>
          <p>{error}</p>
        </Notice>
      )}
      <div class="actions">
        <button
          type="button"
          class="button danger"
          disabled={busy}
          onClick={async () => {
            setBusy(true);
            try {
              await call("DELETE", props.path);
              toast(props.done);
              props.onDone();
              await props.reload();
            } catch (e) {
              setError(sentence(e));
              setBusy(false);
            }
          }}
        >
          {props.button}
        </button>
        <button type="button" class="button quiet" autofocus disabled={busy} onClick={props.onDone}>
          {t.app.cancel}
        </button>
      </div>
    </Dialog>
  );
}
