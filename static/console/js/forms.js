// Forms that change things: sent once, and a choice follows the field that is typed into.

const SENT_MS_MAX = 10_000; // An answer that takes longer may never come: the form can be sent again.

export function startForms() {
  document.addEventListener("submit", (event) => {
    const form = event.target.closest("form");
    if (!form || event.defaultPrevented) return;
    if (form.dataset.guard !== undefined) {
      if (form.dataset.sent !== undefined) return event.preventDefault();
      form.dataset.sent = "";
    }
    leaveOut(form);
    setTimeout(() => release(form), SENT_MS_MAX);
  });
  // A page that comes back from the browser's memory can be sent again.
  addEventListener("pageshow", () => document.querySelectorAll("form").forEach(release));
  document.addEventListener("input", (event) => {
    const choice = event.target.closest(".choice");
    const box = choice?.querySelector('input[type="radio"], input[type="checkbox"]');
    if (box && event.target !== box && event.target.value !== "") box.checked = true;
  });
}

// Fields of choices that were not made stay behind: without a script the server refuses them as contradictory.
function leaveOut(form) {
  for (const choice of form.querySelectorAll(".choice")) {
    const box = choice.querySelector('input[type="radio"], input[type="checkbox"]');
    if (!box || box.checked) continue;
    for (const field of choice.querySelectorAll("input:enabled")) {
      if (field === box) continue;
      field.disabled = true;
      field.dataset.leftOut = "";
    }
  }
}

function release(form) {
  delete form.dataset.sent;
  for (const field of form.querySelectorAll("[data-left-out]")) {
    field.disabled = false;
    delete field.dataset.leftOut;
  }
}
