// Writes times in the reader's zone and form. The server writes them so too, but for live pieces, which are the same for
// all viewers and come in UTC. What to use stands on the link [data-times]; cookies keep it.

const AGAIN_MS = 10_000;
const COOKIE_S = 365 * 86_400;
const FORMS = {
  clock: { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" },
  minute: { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", hourCycle: "h23" },
  full: { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZoneName: "short" },
};
const settings = document.querySelector("[data-times]")?.dataset;
export const zone = zoneOf(settings);
const formats = Object.fromEntries(Object.entries(FORMS).map(([name, form]) => [name, new Intl.DateTimeFormat("en-CA", { ...form, timeZone: zone })]));

// A browser that travelled, or that the server does not know yet, tells its zone.
function zoneOf(wanted) {
  const here = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  if (wanted?.zoneIsBrowsers !== "true") return wanted?.zone ?? "UTC";
  if (here !== wanted.zone) setCookie("hermes_zone", `browser~${here}`);
  return here;
}

export function setCookie(name, value) {
  const secure = location.protocol === "https:" ? "; secure" : "";
  document.cookie = `${name}=${value}; path=/; max-age=${COOKIE_S}; samesite=lax${secure}`;
}

// "14:03:12", "2026-03-01 14:03" or "2026-03-01 14:03:12 CET".
export function timeText(at, form = "clock") {
  const parts = Object.fromEntries(formats[form].formatToParts(at).map((part) => [part.type, part.value]));
  const clock = form === "minute" ? `${parts.hour}:${parts.minute}` : `${parts.hour}:${parts.minute}:${parts.second}`;
  if (form === "clock") return clock;
  const date = `${parts.year}-${parts.month}-${parts.day}`;
  return form === "full" ? `${date} ${clock} ${zone === "UTC" ? "UTC" : parts.timeZoneName}` : `${date} ${clock}`;
}

export function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 172800) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

function relative(at) {
  const seconds = (Date.now() - at) / 1000;
  return seconds < 0 ? `in ${duration(-seconds)}` : `${duration(seconds)} ago`;
}

export function writeTimes(root = document) {
  for (const element of root.querySelectorAll("time[data-time]")) {
    const at = new Date(element.dateTime);
    const exact = timeText(at, element.dataset.time);
    const isRelative = settings?.mode === "relative" && element.dataset.time === "full";
    const text = isRelative ? relative(at) : exact;
    if (element.textContent !== text) element.textContent = text;
    if (isRelative && element.title !== exact) element.title = exact;
  }
  for (const element of root.querySelectorAll("[data-zone-name]")) if (element.textContent !== zone) element.textContent = zone;
}

function offerBrowsersZone() {
  const choice = document.querySelector("[data-zone-choice]");
  if (!choice || choice.querySelector("[data-zone-browser]")) return;
  const here = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  const option = new Option(`Of this browser (${here})`, `browser~${here}`);
  choice.prepend(option);
}

export function startTimes() {
  offerBrowsersZone();
  writeTimes();
  document.body.addEventListener("htmx:afterSettle", (event) => writeTimes(event.target));
  if (settings?.mode === "relative") setInterval(() => writeTimes(), AGAIN_MS);
}
