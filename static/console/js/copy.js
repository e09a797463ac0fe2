// Buttons that copy the code before them: `data-copy`, beside or below a <code>.

const SHOWN_MS = 2000;

export function startCopying() {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const code = button.closest(".secret, .api-call-body")?.querySelector("code");
    const word = button.querySelector("[data-copy-word]");
    if (!code || !word) return;
    const before = word.dataset.before ?? word.textContent;
    word.dataset.before = before;
    try {
      await navigator.clipboard.writeText(code.textContent);
      word.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      word.textContent = "Press Ctrl C";
    }
    setTimeout(() => (word.textContent = before), SHOWN_MS);
  });
}
