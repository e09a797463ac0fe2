// The keyboard: Ctrl/Cmd-K opens the palette, `/` goes to the page's search, `?` shows the keys. Each can be switched off in
// that help; the buttons of the rail stay.
import { setCookie } from "./times.js";

const OFF_KEY = "hermes-keys-off";
const WAIT_MS = 120;
const KIND_WORDS = { page: "Page", cluster: "Cluster", topic: "Topic", group: "Group", act: "Setting" };
const KEYS = [
  ["Ctrl K", "Go to a page, cluster, topic or group"],
  ["/", "Search on this page"],
  ["?", "Show these keys"],
  ["Esc", "Close what is open"],
];

export function startKeys() {
  const palette = makePalette();
  const help = makeHelp();
  document.querySelector("[data-open-palette]")?.addEventListener("click", () => palette.open());
  document.querySelector("[data-open-keys]")?.addEventListener("click", () => help.showModal());
  document.addEventListener("keydown", (event) => {
    if (areOff() || event.isComposing || document.querySelector("dialog[open]")) return;
    if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey) {
      event.preventDefault();
      palette.open();
      return;
    }
    // A dialog's field keeps the focus for a moment after the dialog is closed.
    const field = event.target.closest?.("input, select, textarea, [contenteditable]");
    const isTyping = field && !field.closest("dialog:not([open])");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    const search = document.querySelector("[data-search]");
    if (event.key === "/" && search) {
      event.preventDefault();
      search.focus();
      search.select();
    } else if (event.key === "?") {
      event.preventDefault();
      help.showModal();
    }
  });
}

function areOff() {
  try {
    return localStorage.getItem(OFF_KEY) === "yes";
  } catch {
    return false;
  }
}

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function makeHelp() {
  const rows = KEYS.map(([key, meaning]) => element("div", {}, element("dt", {}, ...key.split(" ").map((one) => element("kbd", {}, one))), element("dd", {}, meaning)));
  const off = element("input", { type: "checkbox", id: "keys-off" });
  off.checked = areOff();
  off.addEventListener("change", () => {
    try {
      if (off.checked) localStorage.setItem(OFF_KEY, "yes");
      else localStorage.removeItem(OFF_KEY);
    } catch {
      // Storage is refused: the keys stay on.
    }
  });
  const close = element("button", { class: "button", value: "close" }, "Close");
  const form = element("form", { method: "dialog", class: "actions" }, element("label", { class: "choice-line" }, off, " Switch these keys off"), close);
  const dialog = element("dialog", { class: "help", "aria-labelledby": "keys-title" }, element("h2", { id: "keys-title" }, "Keyboard"), element("dl", { class: "keys" }, ...rows), form);
  document.body.append(dialog);
  return dialog;
}

function makePalette() {
  const input = element("input", {
    type: "text", role: "combobox", "aria-expanded": "true", "aria-controls": "palette-list", "aria-autocomplete": "list",
    "aria-label": "Go to a page, cluster, topic or group", placeholder: "Go to…", maxlength: "255", autocomplete: "off", spellcheck: "false",
  });
  const list = element("ul", { id: "palette-list", role: "listbox", "aria-label": "Results" });
  const status = element("p", { class: "palette-status quiet", role: "status" });
  const dialog = element("dialog", { class: "palette", "aria-label": "Command palette" }, input, list, status);
  document.body.append(dialog);
  // isWaiting: what is shown answers an older text; Enter then waits for the newest answer.
  const state = { entries: [], chosen: 0, asked: 0, timer: 0, isWaiting: false, goesThen: false };

  function show() {
    list.replaceChildren(...state.entries.map((entry, index) => {
      const row = element("li", { role: "option", id: `palette-${index}`, "aria-selected": String(index === state.chosen) }, element("span", {}, entry.title), element("span", { class: "palette-kind" }, KIND_WORDS[entry.kind]));
      row.addEventListener("mousedown", (event) => event.preventDefault());
      row.addEventListener("click", () => go(entry));
      return row;
    }));
    if (state.entries.length) input.setAttribute("aria-activedescendant", `palette-${state.chosen}`);
    else input.removeAttribute("aria-activedescendant");
    list.children[state.chosen]?.scrollIntoView({ block: "nearest" });
  }

  async function ask() {
    const number = ++state.asked;
    const cluster = document.querySelector("[data-palette-cluster]")?.dataset.paletteCluster ?? "";
    try {
      const answer = await fetch(`/palette?${new URLSearchParams({ q: input.value, cluster })}`, { headers: { Accept: "application/json" } });
      if (number !== state.asked) return;
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const found = await answer.json();
      if (number !== state.asked) return;
      state.entries = [...found.entries, ...acts(input.value)];
      status.textContent = state.entries.length ? found.note : `Nothing is called “${input.value}”. ${found.note}`;
    } catch (error) {
      if (number !== state.asked) return;
      state.entries = acts(input.value);
      status.textContent = `The search failed (${error.message}).`;
    }
    state.chosen = 0;
    state.isWaiting = false;
    show();
    if (state.goesThen && state.entries[0]) go(state.entries[0]);
    state.goesThen = false;
  }

  function go(entry) {
    dialog.close();
    if (entry.run) entry.run();
    else location.assign(entry.address);
  }

  function move(step) {
    if (!state.entries.length) return;
    state.chosen = (state.chosen + step + state.entries.length) % state.entries.length;
    show();
  }

  input.addEventListener("input", () => {
    clearTimeout(state.timer);
    state.asked++; // an answer that is under way answers an older text
    state.isWaiting = true;
    state.goesThen = false;
    state.timer = setTimeout(ask, WAIT_MS);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") move(1);
    else if (event.key === "ArrowUp") move(-1);
    else if (event.key === "Enter" && !event.isComposing) {
      if (state.isWaiting) state.goesThen = true;
      else if (state.entries[state.chosen]) go(state.entries[state.chosen]);
    } else return;
    event.preventDefault();
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  return {
    open() {
      input.value = "";
      Object.assign(state, { entries: [], isWaiting: true, goesThen: false });
      show();
      dialog.showModal();
      ask();
    },
  };
}

function acts(typed) {
  const wanted = typed.trim().toLowerCase();
  const all = [
    { kind: "act", title: "Times in UTC", run: () => reload("hermes_zone", "UTC") },
    { kind: "act", title: "Times of this browser", run: () => reload("hermes_zone", `browser~${Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC"}`) },
    { kind: "act", title: "Times as date and time", run: () => reload("hermes_times", "absolute") },
    { kind: "act", title: "Times as how long ago", run: () => reload("hermes_times", "relative") },
    ...[...document.querySelectorAll("[data-theme-value]")].map((button) => ({ kind: "act", title: `Colours: ${button.textContent.trim()}`, run: () => button.click() })),
  ];
  return wanted ? all.filter((act) => act.title.toLowerCase().includes(wanted)) : [];
}

function reload(name, value) {
  setCookie(name, value);
  location.reload();
}
