// Brings the page to life: live parts, ages that tick, the theme button. Everything works without this file, too.
import "./time-chart.js";
import "./delivery-strip.js";
import "./wind-rose.js";
import { NowTile } from "./now-tile.js";

const REFRESH_AFTER_MS = 300;
const REFRESH_SPACING_MS = 2000;
const CHART_SPACING_MS = new URLSearchParams(location.search).has("range") ? 300_000 : 20_000;
const RECONNECT_MS = 5000;
const AGE_MS = 5000;

const view = document.getElementById("view");
const liveState = document.getElementById("live-state");

// --- live parts -------------------------------------------------------------------------------------------------

let waiting = 0;
let lastRefresh = -REFRESH_SPACING_MS;
let lastCharts = performance.now();

/** Ask for the live parts soon; many reasons within a moment are one question. */
function refreshSoon() {
  if (waiting) return;
  const due = Math.max(REFRESH_AFTER_MS, lastRefresh + REFRESH_SPACING_MS - performance.now());
  waiting = setTimeout(() => {
    waiting = 0;
    lastRefresh = performance.now();
    refresh().catch(() => say("The page could not be updated; it tries again with the next packet."));
  }, due);
}

async function refresh() {
  if (document.querySelector("[data-empty]")) {
    location.reload();
    return;
  }
  const answer = await fetch(view.dataset.liveUrl, { headers: { accept: "text/html" } });
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of fresh.querySelectorAll("[data-live]")) replacePart(part);
  // A chart of a month need not be drawn anew for every minute.
  if (performance.now() - lastCharts >= CHART_SPACING_MS) {
    lastCharts = performance.now();
    for (const chart of document.querySelectorAll("time-chart")) chart.refresh();
  }
}

/** Put a fresh part in place of the old one, keeping open what was open and the focus where it was. */
function replacePart(part) {
  const old = document.getElementById(part.id);
  if (!old) return;
  const open = new Set([...old.querySelectorAll("details[open]")].map((details) => details.id));
  const before = new Map([...old.querySelectorAll("now-tile")].map((tile) => [tile.id, tile.dataset.text]));
  const cells = new Map([...old.querySelectorAll("delivery-strip")].map((strip) => [strip.id, strip.cell]));
  const focused = old.contains(document.activeElement) ? selectorOf(document.activeElement) : undefined;
  const adopted = document.adoptNode(part);
  for (const details of adopted.querySelectorAll("details")) details.open = open.has(details.id);
  old.replaceWith(adopted);
  for (const tile of adopted.querySelectorAll("now-tile")) {
    if (tile instanceof NowTile && before.has(tile.id) && before.get(tile.id) !== tile.dataset.text) tile.changed();
  }
  window.htmx?.process(adopted);
  if (!focused) return;
  for (const strip of adopted.querySelectorAll("delivery-strip")) strip.cell = cells.get(strip.id) ?? strip.cell;
  adopted.querySelector(focused)?.focus({ preventScroll: true });
}

/** How to find in the fresh part what had the focus in the old one. */
function selectorOf(element) {
  if (element.id) return `#${CSS.escape(element.id)}`;
  if (element.matches("a[href]")) return `a[href="${CSS.escape(element.getAttribute("href"))}"]`;
  const owner = element.parentElement;
  return owner?.id ? `#${CSS.escape(owner.id)} > ${element.localName}` : undefined;
}

// --- what the server tells --------------------------------------------------------------------------------------

let source;

function listen() {
  source = new EventSource("/events?topics=reading,packet,delivery");
  let broken = false;
  source.addEventListener("open", () => {
    say("Live");
    document.documentElement.dataset.live = "on";
    if (broken) refreshSoon(); // what happened meanwhile was not told
    broken = false;
  });
  for (const topic of ["reading", "packet", "delivery"]) source.addEventListener(topic, refreshSoon);
  source.addEventListener("error", () => {
    broken = true;
    document.documentElement.dataset.live = "off";
    say("Not connected; trying again");
    if (source.readyState === EventSource.CLOSED) {
      // The server refused (restart, too many listeners): the browser gives up, we do not.
      setTimeout(() => {
        listen();
        refreshSoon();
      }, RECONNECT_MS);
    }
  });
}

function say(words) {
  if (liveState) liveState.textContent = words;
}

addEventListener("pagehide", () => source?.close());
addEventListener("pageshow", (event) => {
  if (live && event.persisted) {
    listen();
    refreshSoon();
  }
});
// The page of one packet has nothing that changes.
const live = Boolean(view?.dataset.liveUrl || document.querySelector("[data-empty]"));
if (live) listen();

// --- ages -------------------------------------------------------------------------------------------------------

/** Words for a span, the same as the server's. */
export function ageWords(seconds) {
  if (seconds < -60) return undefined;
  if (seconds < 5) return "just now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) {
    const minutes = Math.floor((seconds % 3600) / 60);
    return minutes ? `${Math.floor(seconds / 3600)} h ${minutes} min ago` : `${Math.floor(seconds / 3600)} h ago`;
  }
  return undefined;
}

setInterval(() => {
  for (const element of document.querySelectorAll("live-age")) {
    const words = ageWords((Date.now() - Date.parse(element.getAttribute("datetime"))) / 1000);
    if (words && element.textContent !== words) element.textContent = words;
  }
}, AGE_MS);

// --- choices ----------------------------------------------------------------------------------------------------

const themeButton = document.getElementById("theme");
themeButton.hidden = false;
themeButton.addEventListener("click", () => {
  const dark = getComputedStyle(document.documentElement).colorScheme.trim() === "dark";
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  try {
    localStorage.setItem("stormjay-theme", dark ? "light" : "dark");
  } catch {
    // Then the choice lasts as long as the page.
  }
  document.dispatchEvent(new Event("stormjay-theme"));
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
  document.dispatchEvent(new Event("stormjay-theme")),
);

for (const form of document.querySelectorAll("form.choose")) {
  form.classList.add("by-itself");
  form.addEventListener("change", () => form.submit());
}
