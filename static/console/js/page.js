// Every page: theme buttons, keys, and where it is live, the socket and its chart.
import { startLive } from "./live.js";
import { startCharts } from "./chart.js";
import { startForms } from "./forms.js";
import { startKeys } from "./keys.js";
import { startMenu, startParts } from "./menu.js";
import { startPresses } from "./press.js";
import { startTimes } from "./times.js";
import { startCopying } from "./copy.js";

const THEME_KEY = "hermes-theme";

function startTheme() {
  const buttons = [...document.querySelectorAll("[data-theme-value]")];
  const show = () => {
    const current = document.documentElement.dataset.theme ?? "system";
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.themeValue === current));
  };
  for (const button of buttons) {
    button.addEventListener("click", () => {
      const value = button.dataset.themeValue;
      if (value === "system") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = value;
      try {
        if (value === "system") localStorage.removeItem(THEME_KEY);
        else localStorage.setItem(THEME_KEY, value);
      } catch {
        // Storage is refused: the choice holds for this page.
      }
      show();
      document.dispatchEvent(new CustomEvent("hermes:theme"));
    });
  }
  show();
}

startTheme();
startForms();
startPresses();
startMenu();
startParts();
startKeys();
startTimes();
startCopying();
const charts = startCharts();
const main = document.querySelector("[data-live]");
if (main) startLive(main, charts);
