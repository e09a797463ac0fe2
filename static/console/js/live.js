// The live socket of a page: subscribes to the page's view, puts its pieces in place, feeds its charts, says how it is.
// Frames are whole; a jump in the sequence costs only points of charts, which are fetched again.
import { morph } from "./morph.js";
import { whenReleased } from "./press.js";
import { duration, timeText, writeTimes } from "./times.js";

const RETRY_MS = [500, 1000, 2000, 5000, 10000];
const LATE_AFTER_MS = 6000;
const SIGNED_OUT = 4401;
const WORDS = { connecting: "Connecting", live: "Live", late: "No new samples", offline: "Disconnected, retrying", paused: "Paused", trouble: "Cluster not reached", ended: "Signed out" };

export function startLive(main, charts) {
  const state = { socket: null, retries: 0, sequence: null, isPaused: false, lastFrameAt: 0, isOver: false };
  const controls = controlsOf(main);

  function show(word) {
    if (controls.state?.dataset.liveState === word) return;
    if (controls.state) controls.state.dataset.liveState = word;
    if (controls.word) controls.word.textContent = WORDS[word];
  }

  function parameters() {
    const found = Object.fromEntries(new URLSearchParams(location.search));
    if (main.dataset.liveGroup !== undefined) found.group = main.dataset.liveGroup;
    if (main.dataset.liveTopic !== undefined) found.topic = main.dataset.liveTopic;
    return found;
  }

  function send(message) {
    if (state.socket?.readyState === WebSocket.OPEN) state.socket.send(JSON.stringify(message));
  }

  function subscribe() {
    send({ type: "subscribe", view: main.dataset.live, cluster: main.dataset.liveCluster, parameters: parameters() });
    if (state.isPaused) send({ type: "pause" });
  }

  function connect() {
    const address = new URL("/ws/live", location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    state.socket = new WebSocket(address);
    state.socket.addEventListener("open", subscribe);
    state.socket.addEventListener("message", (event) => whenReleased(() => receive(JSON.parse(event.data))));
    state.socket.addEventListener("close", (event) => {
      if (event.code === SIGNED_OUT) {
        state.isOver = true;
        show("ended");
        location.reload();
        return;
      }
      if (!state.isPaused) show("offline");
      setTimeout(connect, RETRY_MS[Math.min(state.retries++, RETRY_MS.length - 1)]);
    });
  }

  function receive(frame) {
    if (frame.type !== "snapshot" || frame.view !== main.dataset.live || state.isPaused) return;
    state.retries = 0;
    const sequence = BigInt(frame.sequence);
    const isGap = state.sequence !== null && sequence !== state.sequence && sequence !== state.sequence + 1n;
    const isNew = sequence !== state.sequence;
    state.sequence = sequence;
    state.lastFrameAt = Date.now();
    state.atMs = Number(frame.at_ms);
    for (const [id, html] of Object.entries(frame.html)) {
      const target = document.getElementById(id);
      if (!target) continue;
      morph(target, html);
      writeTimes(target);
    }
    for (const chart of charts) {
      if (isGap) chart.refetch();
      else if (isNew) for (const point of frame.points?.points ?? []) chart.add(point);
    }
    if (controls.time) controls.time.textContent = timeText(new Date(state.atMs));
    showAges();
    show(document.querySelector("[data-trouble]") ? "trouble" : "live");
  }

  function pause(isPaused) {
    state.isPaused = isPaused;
    controls.pause.setAttribute("aria-pressed", String(isPaused));
    controls.pauseWord.textContent = isPaused ? "Resume" : "Pause";
    controls.iconPause.hidden = isPaused;
    controls.iconPlay.hidden = !isPaused;
    send({ type: isPaused ? "pause" : "resume" });
    show(isPaused ? "paused" : state.socket?.readyState === WebSocket.OPEN ? "live" : "offline");
  }

  controls.pause?.addEventListener("click", () => pause(!state.isPaused));
  document.body.addEventListener("htmx:afterSettle", subscribe);
  addEventListener("popstate", subscribe);
  setInterval(() => {
    showAges();
    const isOpen = state.socket?.readyState === WebSocket.OPEN;
    if (isOpen && !state.isPaused && state.lastFrameAt && Date.now() - state.lastFrameAt > LATE_AFTER_MS) show("late");
  }, 1000);
  connect();
}

function controlsOf(main) {
  const find = (name) => main.querySelector(`[data-${name}]`);
  return {
    state: find("live-state"),
    word: find("live-word"),
    time: find("live-time"),
    pause: find("live-pause"),
    pauseWord: find("live-pause-word"),
    iconPause: find("icon-pause"),
    iconPlay: find("icon-play"),
  };
}

function showAges() {
  for (const element of document.querySelectorAll("[data-age-of]")) {
    const text = duration((Date.now() - Number(element.dataset.ageOf)) / 1000);
    if (element.textContent !== text) element.textContent = text;
  }
}
