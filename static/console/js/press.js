// While a pointer is pressed, nothing new is put into the page: a click counts only where press and release meet the
// same element. Answers to htmx and live frames wait for the release.

const PRESS_MS_MAX = 10_000; // A release may never come, as when a window of the system opens.
const CLICK_MS = 50; // A finger's click comes after its release.
const state = { isPressed: false, timer: 0, waiting: [] };

export function whenReleased(act) {
  if (state.isPressed) state.waiting.push(act);
  else act();
}

export function startPresses() {
  addEventListener("pointerdown", press, true);
  addEventListener("pointerup", release, true);
  addEventListener("pointercancel", release, true);
  document.body.addEventListener("htmx:beforeRequest", ({ detail: { xhr } }) => {
    const { onload, onabort } = xhr;
    // A newer request aborts one whose answer waits here; the browser does not tell, and htmx sends the newer one after it.
    xhr.onload = () => whenReleased(() => (xhr.readyState === XMLHttpRequest.DONE ? onload() : onabort()));
  });
}

function press(event) {
  if (!event.isPrimary || event.button !== 0) return;
  state.isPressed = true;
  clearTimeout(state.timer);
  state.timer = setTimeout(goOn, PRESS_MS_MAX);
}

function release(event) {
  if (!state.isPressed || !event.isPrimary) return;
  clearTimeout(state.timer);
  state.timer = setTimeout(goOn, CLICK_MS);
}

function goOn() {
  state.isPressed = false;
  for (const act of state.waiting.splice(0)) queueMicrotask(act); // one that fails stops no other
}
