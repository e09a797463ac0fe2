// Applies the remembered colours before the first paint; `page.js` wires the buttons. Not a module: it must not wait.
"use strict";
(() => {
  let choice = null;
  try {
    choice = localStorage.getItem("hermes-theme");
  } catch {
    // Storage is refused: the system's colours are used.
  }
  if (choice === "light" || choice === "dark") document.documentElement.dataset.theme = choice;
})();
