// Small line icons, drawn for a 20 by 20 grid. They only ever stand beside words, so they are hidden from readers.
import type { ComponentChildren } from "preact";

function Icon(props: { children: ComponentChildren; class?: string }) {
  return (
    <svg class={`icon ${props.class ?? ""}`} viewBox="0 0 20 20" width="20" height="20" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true" focusable="false">
      {props.children}
    </svg>
  );
}

/** Skald's mark: the rune for S, cut with three strokes. */
export const Mark = () => (
  <svg class="mark" viewBox="0 0 32 32" width="32" height="32" aria-hidden="true" focusable="false">
    <rect width="32" height="32" rx="8" class="mark-ground" />
    <path d="M19.5 5.5 11 14.2h9.6l-8.3 12.3" class="mark-rune" />
  </svg>
);

export const InboxIcon = () => (
  <Icon>
    <path d="M3 11.5 5 4.5h10l2 7v4h-14z" />
    <path d="M3 11.5h4l1 2h4l1-2h4" />
  </Icon>
);
export const HistoryIcon = () => (
  <Icon>
    <path d="M3.5 10a6.5 6.5 0 1 1 2 4.7" />
    <path d="M3 17v-3h3M10 6.5V10l2.5 1.8" />
  </Icon>
);
export const DevicesIcon = () => (
  <Icon>
    <rect x="5.5" y="2.5" width="9" height="15" rx="2" />
    <path d="M9 15h2" />
  </Icon>
);
export const PluginsIcon = () => (
  <Icon>
    <path d="M7 2.5v4M13 2.5v4M4.5 6.5h11v3a5.5 5.5 0 0 1-11 0zM10 15v2.5" />
  </Icon>
);
export const SettingsIcon = () => (
  <Icon>
    <path d="M3 6h7M14 6h3M3 14h3M10 14h7" />
    <circle cx="12" cy="6" r="2" />
    <circle cx="8" cy="14" r="2" />
  </Icon>
);
export const ApprovalIcon = () => (
  <Icon>
    <path d="M10 2.5 16 5v4.5c0 4-2.6 6.6-6 8-3.4-1.4-6-4-6-8V5z" />
    <path d="m7.5 10 2 2 3.2-3.8" />
  </Icon>
);
export const QuestionIcon = () => (
  <Icon>
    <path d="M3 4.5h14v9.5h-7l-4 3v-3H3z" />
    <path d="M8.4 7.6c.2-.9.9-1.3 1.7-1.3 1 0 1.7.6 1.7 1.4 0 1.1-1.6 1.2-1.6 2.3M10.2 12v.1" />
  </Icon>
);
export const InputIcon = () => (
  <Icon>
    <rect x="2.5" y="5.5" width="15" height="9" rx="2" />
    <path d="M6 8v4M9 12h5" />
  </Icon>
);
export const Check = () => (
  <Icon>
    <path d="m4.5 10.5 3.5 3.5 7.5-8" />
  </Icon>
);
export const Cross = () => (
  <Icon>
    <path d="m5 5 10 10M15 5 5 15" />
  </Icon>
);
export const Clock = () => (
  <Icon>
    <circle cx="10" cy="10" r="7" />
    <path d="M10 6v4.2l2.6 1.6" />
  </Icon>
);
export const CopyIcon = () => (
  <Icon>
    <rect x="7" y="7" width="9.5" height="9.5" rx="2" />
    <path d="M13 7V5a1.5 1.5 0 0 0-1.5-1.5h-6A1.5 1.5 0 0 0 4 5v6a1.5 1.5 0 0 0 1.5 1.5H7" />
  </Icon>
);
export const Eye = () => (
  <Icon>
    <path d="M2.5 10s2.6-5 7.5-5 7.5 5 7.5 5-2.6 5-7.5 5-7.5-5-7.5-5z" />
    <circle cx="10" cy="10" r="2.2" />
  </Icon>
);
export const Warning = () => (
  <Icon>
    <path d="M10 3.2 17.5 16.5h-15z" />
    <path d="M10 8v4M10 14.2v.1" />
  </Icon>
);
export const Info = () => (
  <Icon>
    <circle cx="10" cy="10" r="7" />
    <path d="M10 9.2v4.2M10 6.6v.1" />
  </Icon>
);
export const Chevron = () => (
  <Icon class="chevron">
    <path d="m7.5 5 5 5-5 5" />
  </Icon>
);
export const Plus = () => (
  <Icon>
    <path d="M10 4v12M4 10h12" />
  </Icon>
);
export const Keyboard = () => (
  <Icon>
    <rect x="2" y="5" width="16" height="10.5" rx="2" />
    <path d="M5.5 8.5h.1M8.5 8.5h.1M11.5 8.5h.1M14.5 8.5h.1M6.5 12.3h7" />
  </Icon>
);

/** The picture of the empty Inbox: a rune stone on a quiet shore. */
export const RuneStone = () => (
  <svg class="runestone" viewBox="0 0 160 120" width="160" height="120" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true" focusable="false">
    <path d="M56 96c-3-22-2-46 7-62 5-9 13-15 20-15 10 0 18 7 22 19 6 17 6 38 3 58" />
    <path d="M92 36 76 55h17L79 78" class="runestone-rune" />
    <path d="M22 97h28M54 97h58M117 97h22M34 105h30M78 105h48" />
    <path d="M121 91c2-8 6-13 11-16M127 92c3-5 7-8 11-9M44 91c-1-6-4-11-8-13" />
  </svg>
);
