// Paths of the page, and links that move between them without a load.
import type { ComponentChildren } from "preact";
import { Cell } from "./cell";

export type Route =
  | { page: "inbox" }
  | { page: "history" }
  | { page: "devices" }
  | { page: "plugins" }
  | { page: "plugin"; id: string }
  | { page: "settings" }
  | { page: "unknown" };

export function match(path: string): Route {
  const parts = path.split("/").filter((p) => p !== "");
  const [first, second] = parts;
  if (parts.length === 0) return { page: "inbox" };
  if (parts.length === 1) {
    switch (first) {
      case "inbox":
      case "history":
      case "devices":
      case "plugins":
      case "settings":
        return { page: first };
    }
  }
  if (parts.length === 2 && first === "plugins" && second) {
    try {
      return { page: "plugin", id: decodeURIComponent(second) };
    } catch {
      return { page: "unknown" };
    }
  }
  return { page: "unknown" };
}

export const route = new Cell<Route>({ page: "inbox" });
/** Counts moves, so that the shell knows when to put the focus on the new page's heading. */
export const moves = new Cell(0);

export function startRouter(): void {
  route.set(match(location.pathname));
  window.addEventListener("popstate", () => {
    route.set(match(location.pathname));
    moves.update((n) => n + 1);
  });
}

export function go(path: string): void {
  if (path !== location.pathname) history.pushState(null, "", path);
  route.set(match(path));
  moves.update((n) => n + 1);
  window.scrollTo(0, 0);
}

export function Link(props: { href: string; class?: string; current?: boolean; children: ComponentChildren }) {
  return (
    <a
      href={props.href}
      class={props.class}
      aria-current={props.current ? "page" : undefined}
      onClick={(event) => {
        if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
        event.preventDefault();
        go(props.href);
      }}
    >
      {props.children}
    </a>
  );
}
