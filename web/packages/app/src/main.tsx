import { render } from "preact";
import { App } from "./app";
import { startRouter } from "./router";
import { start } from "./session";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/layout.css";
import "./styles/parts.css";
import "./styles/forms.css";
import "./styles/cards.css";
import "./styles/pages.css";

startRouter();
void start();
// A sign-in link opened in a tab where the page is already loaded only changes the fragment.
window.addEventListener("hashchange", () => {
  if (location.hash.startsWith("#signin=")) void start();
});

const root = document.getElementById("app");
if (root) render(<App />, root);
