// The two choices that stay in the browser: colours and shortcuts. Nothing else does.
import { Cell } from "./cell";

export type Theme = "system" | "light" | "dark";

function read(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function write(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    // A browser that keeps nothing still lets one choose until the page is left.
  }
}

const kept = read("skald.theme");
export const theme = new Cell<Theme>(kept === "light" || kept === "dark" ? kept : "system");
export const shortcuts = new Cell(read("skald.shortcuts") !== "off");

export function chooseTheme(choice: Theme): void {
  write("skald.theme", choice);
  theme.set(choice);
  // public/theme.js, which runs before anything else, puts it into effect.
  window.dispatchEvent(new Event("skald-theme"));
}

export function chooseShortcuts(on: boolean): void {
  write("skald.shortcuts", on ? "on" : "off");
  shortcuts.set(on);
}
