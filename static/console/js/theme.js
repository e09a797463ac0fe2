// Applies the remembered colours before the first paint, and says that scripts run: the narrow page's menu begins
// closed then. `page.js` wires the buttons. Not a module: it must not wait.
"use strict";
(() => {
  document.documentElement.dataset.script = "";
  let choice = null;
  try {
    choice = localStorage.getItem("hermes-theme");
  } catch {
    // Storage is refused: the system's colours are used.
  }
  if (choice === "light" || choice === "dark") document.documentElement.dataset.theme = choice;
})();
