// The narrow page's menu behind its button, and parts of a page that an address opens.

export function startMenu() {
  const button = document.querySelector("[data-menu-button]");
  if (!button) return;
  const set = (isOpen) => button.setAttribute("aria-expanded", String(isOpen));
  const isOpen = () => button.getAttribute("aria-expanded") === "true";
  button.addEventListener("click", () => set(!isOpen()));
  button.parentElement.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !isOpen()) return;
    set(false);
    button.focus();
  });
}

// `#part` of an address opens the closed part that it names.
export function startParts() {
  const open = () => {
    const part = location.hash.length > 1 ? document.getElementById(decodeURIComponent(location.hash.slice(1))) : null;
    if (part instanceof HTMLDetailsElement && !part.open) {
      part.open = true;
      part.scrollIntoView();
    }
  };
  addEventListener("hashchange", open);
  open();
}
