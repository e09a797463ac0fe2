// Forms that change things: sent once, and a choice follows the field that is typed into.

export function startForms() {
  document.addEventListener("submit", (event) => {
    const form = event.target.closest("form[data-guard]");
    if (!form) return;
    if (form.dataset.sent !== undefined) event.preventDefault();
    form.dataset.sent = "";
  });
  // A page that comes back from the browser's memory can be sent again.
  addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
  });
  document.addEventListener("input", (event) => {
    const choice = event.target.closest(".choice");
    const radio = choice?.querySelector('input[type="radio"]');
    if (radio && event.target !== radio) radio.checked = true;
  });
}
