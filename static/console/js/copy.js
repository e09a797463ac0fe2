// Buttons that copy the code before them: `data-copy`, beside or below a <code>. They come disabled: before this script
// runs a click would do nothing, and look as if it had.

const SHOWN_MS = 2000;

export function startCopying() {
  for (const button of document.querySelectorAll("[data-copy]")) {
    const code = button.closest(".secret, .api-call-body")?.querySelector("code");
    const word = button.querySelector("[data-copy-word]");
    if (!code || !word) continue;
    const before = word.textContent;
    let timer = 0;
    button.addEventListener("click", async () => {
      clearTimeout(timer);
      try {
        await navigator.clipboard.writeText(code.textContent);
        word.textContent = "Copied";
        timer = setTimeout(() => (word.textContent = before), SHOWN_MS);
      } catch {
        // This stays: who looked away would paste, and keep, something else.
        getSelection().selectAllChildren(code);
        word.textContent = "Not copied: press Ctrl C";
      }
    });
    button.disabled = false;
  }
}
