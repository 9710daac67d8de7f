// Fetches the page again and puts what has changed in place: no part of a page is written here.
// Focus, opened details and sideways scrolling outlive a change.

const body = document.body;
const main = document.getElementById("live");
const status = document.getElementById("status");
const connection = document.getElementById("connection");
const ANNOUNCE_EVERY = 15000; // milliseconds: whoever listens is not interrupted by every round
const FOCUSABLE = "a[href], button, summary, [tabindex]";

// ------------------------------------------------------------- live parts

let version = body.dataset.version;
let failures = 0;
let said = { at: -Infinity, words: "", states: "" };
const sources = new Map();

function remember(root) {
  for (const child of root.children) sources.set(child.id, child.outerHTML);
}

function replace(old, fresh) {
  const all = (root, what) => [...root.querySelectorAll(what)];
  const active = document.activeElement;
  const held = old.contains(active) ? { id: active.id, place: all(old, FOCUSABLE).indexOf(active) } : null;
  all(old, "details").forEach((one, n) => { const other = all(fresh, "details")[n]; if (other) other.open = one.open; });
  const scrolled = all(old, ".scroll").map((one) => one.scrollLeft);
  old.replaceWith(fresh);
  all(fresh, ".scroll").forEach((one, n) => { one.scrollLeft = scrolled[n] ?? 0; });
  if (held) {
    const next = (held.id && document.getElementById(held.id)) || all(fresh, FOCUSABLE)[held.place];
    next?.focus({ preventScroll: true });
  }
}

function put(page) {
  const fresh = page.getElementById("live");
  if (!fresh) return;
  document.title = page.title;
  body.dataset.every = page.body.dataset.every;
  const wanted = [...fresh.children].map((child) => document.adoptNode(child));
  const ids = new Set(wanted.map((child) => child.id));
  for (const child of [...main.children]) {
    if (!ids.has(child.id)) { sources.delete(child.id); child.remove(); }
  }
  let before = null;
  for (const child of wanted) {
    const old = document.getElementById(child.id);
    const source = child.outerHTML;
    if (!old) {
      if (before) before.after(child); else main.prepend(child);
    } else if (sources.get(child.id) !== source) {
      replace(old, child);
    }
    sources.set(child.id, source);
    const here = document.getElementById(child.id);
    const place = before ? before.nextElementSibling : main.firstElementChild;
    // Moving an element drops its focus, so that only what stands wrongly is moved.
    if (here !== place) { if (before) before.after(here); else main.prepend(here); }
    before = here;
  }
  announce();
}

function announce() {
  const words = main.querySelector("[data-announce]")?.textContent ?? "";
  const states = [...main.querySelectorAll("[data-state]")].map((one) => one.id + one.dataset.state).join();
  const now = performance.now();
  if (words === said.words && states === said.states) return;
  if (states === said.states && now - said.at < ANNOUNCE_EVERY) return;
  if (said.states !== "") status.textContent = words;
  said = { at: now, words, states };
}

function connected(words, good) {
  connection.textContent = words;
  connection.classList.toggle("bad", !good);
}

async function refresh() {
  try {
    const answer = await fetch(location.pathname + location.search, {
      headers: { "If-None-Match": version }, cache: "no-store", redirect: "error",
    });
    if (answer.status === 401) {
      connected("The dashboard was started anew: open the address it printed.", false);
      return;
    }
    if (answer.status === 404) {
      connected("This run is no longer there. What you see is its last state.", false);
    } else if (answer.status === 200) {
      put(new DOMParser().parseFromString(await answer.text(), "text/html"));
      version = answer.headers.get("ETag");
    }
    if (answer.ok || answer.status === 304) connected(`Live: as of ${new Date().toLocaleTimeString()}.`, true);
    failures = 0;
  } catch {
    failures += 1;
    connected("No answer from the dashboard: what you see is its last word.", false);
  }
  later();
}

function later() {
  const pause = Number(body.dataset.every) * 1000 * Math.min(2 ** failures, 16);
  setTimeout(() => (document.hidden ? later() : refresh()), pause);
}

if (main) {
  remember(main);
  announce();
  connected("Live: this page changes by itself.", true);
  later();
}

// ------------------------------------------------------------- light and dark

const root = document.documentElement;
const button = document.getElementById("theme");
const dark = matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : dark.matches;
}

function label() {
  button.textContent = isDark() ? "Light theme" : "Dark theme";
}

function toggle() {
  root.dataset.theme = isDark() ? "light" : "dark";
  document.cookie = `unisono-theme=${root.dataset.theme}; path=/; max-age=31536000; samesite=strict`;
  label();
}

button.addEventListener("click", toggle);
dark.addEventListener("change", label);
label();
button.hidden = false;

// ------------------------------------------------------------- keys

const OFF = "unisono-keys-off";
const keySwitch = document.getElementById("keys-switch");

function step(by) {
  const steps = [...document.querySelectorAll("[data-step]")];
  const at = steps.findIndex((one) => one.contains(document.activeElement));
  const next = steps[at < 0 ? (by > 0 ? 0 : steps.length - 1) : at + by];
  next?.querySelector("h2 a, h2[tabindex]").focus();
}

const KEYS = {
  j: () => step(1),
  k: () => step(-1),
  u: () => document.getElementById("go-runs").click(),
  t: toggle,
  v: () => (document.querySelector(".choices a[aria-current]") ?? document.querySelector(".choices a"))?.focus(),
  "?": () => document.getElementById("go-about").click(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || localStorage.getItem(OFF)) return;
  if (event.target.closest("input, textarea, select")) return;
  if (Object.hasOwn(KEYS, event.key)) { event.preventDefault(); KEYS[event.key](); }
});

if (keySwitch) {
  const name = () => { keySwitch.textContent = localStorage.getItem(OFF) ? "Turn these keys on" : "Turn these keys off"; };
  keySwitch.addEventListener("click", () => {
    if (localStorage.getItem(OFF)) localStorage.removeItem(OFF); else localStorage.setItem(OFF, "1");
    name();
  });
  name();
  keySwitch.hidden = false;
}
