// Runs before the first paint so that the page never flashes in the wrong colours. The choice of theme is the only
// thing, beside the switch for shortcuts, that the page keeps in the browser.
(function () {
  var root = document.documentElement;
  var dark = window.matchMedia("(prefers-color-scheme: dark)");
  function choice() {
    try {
      return window.localStorage.getItem("skald.theme") || "system";
    } catch (e) {
      return "system";
    }
  }
  function apply() {
    var c = choice();
    var theme = c === "light" || c === "dark" ? c : dark.matches ? "dark" : "light";
    root.setAttribute("data-theme", theme);
    var meta = document.querySelector('meta[name="theme-color"]');
    if (meta) meta.setAttribute("content", theme === "dark" ? "#14171a" : "#f6f3ec");
  }
  apply();
  dark.addEventListener("change", apply);
  window.addEventListener("storage", apply);
  window.addEventListener("skald-theme", apply);
})();
