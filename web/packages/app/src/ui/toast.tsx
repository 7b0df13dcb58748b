// Short messages: said to screen readers politely, and shown for a while at the foot of the page.
import { useEffect } from "preact/hooks";
import { Cell, useCell } from "../cell";
import { Cross } from "../icons";
import { t } from "../strings";

interface Toast {
  id: number;
  text: string;
}

const toasts = new Cell<Toast[]>([]);
const spoken = new Cell<{ id: number; text: string }>({ id: 0, text: "" });
let next = 1;

/** Said, not shown. */
export function announce(text: string): void {
  spoken.set({ id: next++, text });
}

/** Shown for some seconds and said. At most three at a time: the oldest gives way. */
export function toast(text: string): void {
  toasts.update((list) => [...list.slice(-2), { id: next++, text }]);
}

export function Toasts() {
  const list = useCell(toasts);
  const said = useCell(spoken);
  return (
    <>
      <div class="visually-hidden" role="status" aria-live="polite">
        <span key={said.id}>{said.text}</span>
      </div>
      <div class="toasts" role="status" aria-live="polite">
        {list.map((x) => (
          <OneToast key={x.id} toast={x} />
        ))}
      </div>
    </>
  );
}

function OneToast(props: { toast: Toast }) {
  const { id, text } = props.toast;
  const drop = () => toasts.update((list) => list.filter((x) => x.id !== id));
  useEffect(() => {
    const timer = setTimeout(drop, 6000);
    return () => clearTimeout(timer);
  }, [id]);
  return (
    <div class="toast">
      <p>{text}</p>
      <button type="button" class="icon-button" onClick={drop}>
        <Cross />
        <span class="visually-hidden">{t.app.dismiss}</span>
      </button>
    </div>
  );
}
