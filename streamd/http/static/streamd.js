// The dashboard's script. One stream of events brings all that a page shows; nothing is asked for in between.

import { $, nameRoles, put } from "./elements.js";
import { moment, span } from "./figures.js";
import { asked, forgetAll, redraw, showOverview, showSegment } from "./pages.js";

const AGAIN_MS = 5000;
const view = { source: null, again: 0, heard: null, paused: false };
const page = asked.has("segment") ? "segment" : "overview";
const system = asked.get("view") === "system";

// -- how it is -------------------------------------------------------------------------------------------------------

function showChip(kind, text) {
  $("state").className = `chip ${kind}`;
  put("state", text);
}

function showState(state) {
  if (state.not_ready === null) showChip("good", "ready");
  else showChip("bad", `not ready: ${state.not_ready}`);
  put("version", `${state.version},`);
  put("uptime", `up ${span(state.uptime_seconds)}`);
  document.body.classList.remove("stale");
  put("alarm", state.alarms.join(" "));
  $("alarm").hidden = state.alarms.length === 0;
  notify("");
  view.heard = Date.now();
}

function notify(text) {
  put("notice", text);
  $("notice").hidden = text === "";
}

function lost() {
  showChip("bad", "no connection");
  const since = view.heard === null ? "" : ` What is shown is of ${moment(view.heard / 1000)}.`;
  notify(`The daemon does not answer.${since} This page tries again by itself.`);
  document.body.classList.add("stale");
}

// Say why nothing is told. What no right is left for does not stay in sight.
function refuse(reason, forbidden) {
  showChip("bad", forbidden ? "not allowed" : "refused, trying again");
  notify(reason);
  document.body.classList.add("stale");
  if (forbidden) $(page).hidden = true;
  view.again = setTimeout(inquire, AGAIN_MS);
}

// -- the stream ------------------------------------------------------------------------------------------------------

// A browser does not tell why a stream was refused, nor try again by itself. So ask, until there is a stream to be had.
async function inquire() {
  const asking = new AbortController();
  view.source = { close: () => asking.abort() };
  try {
    const answer = await fetch(`events?${asked}`, { signal: asking.signal });
    if (answer.ok) connect();
    else refuse(await answer.text(), answer.status === 403);
  } catch {
    if (asking.signal.aborted) return;
    lost();
    view.again = setTimeout(inquire, AGAIN_MS);
  }
}

function connect() {
  disconnect();
  const source = new EventSource(`events?${asked}`);
  view.source = source;
  source.onopen = () => {
    forgetAll();
    $(page).hidden = false;
  };
  source.onmessage = (message) => {
    const event = JSON.parse(message.data);
    showState(event.state);
    (page === "segment" ? showSegment : showOverview)(event);
    markScrollable();
  };
  source.addEventListener("refused", (message) => {
    source.close();
    refuse(JSON.parse(message.data), true);
  });
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) inquire();
    else lost();
  };
}

function disconnect() {
  clearTimeout(view.again);
  view.source?.close();
  view.source = null;
}

// A page that nobody sees costs nobody anything, and one that somebody reads holds still.
function follow() {
  if (document.hidden || view.paused) disconnect();
  else connect();
}

function pause() {
  view.paused = !view.paused;
  put("pause", view.paused ? "Go on" : "Pause");
  if (view.paused) showChip("", "paused");
  follow();
}

// -- what a person does ----------------------------------------------------------------------------------------------

function ask(changes) {
  for (const [name, value] of Object.entries(changes)) {
    if (value === "") asked.delete(name);
    else asked.set(name, value);
  }
  const query = asked.toString();
  history.replaceState(null, "", query ? `?${query}` : "./");
  if (view.paused) pause();
  else connect();
}

function turn(button, pages) {
  if (button.ariaDisabled !== "true") ask({ page: String(Number(asked.get("page") ?? 1) + pages) });
}

// What scrolls sideways can be reached with the keyboard, and what does not is no stop on the way.
function markScrollable() {
  for (const each of document.querySelectorAll(".wide")) {
    if (each.scrollWidth > each.clientWidth) each.tabIndex = 0;
    else each.removeAttribute("tabindex");
  }
}

// Each head of a column sorts by it; the same once more turns the order round.
function sortBy({ dataset }) {
  const now = asked.get("sort") ?? "name";
  ask({ sort: now === dataset.sort ? `-${now}` : dataset.sort, page: "" });
  markSorted();
}

function markSorted() {
  const now = asked.get("sort") ?? "name";
  for (const button of document.querySelectorAll("[data-sort]")) {
    const mine = now.replace("-", "") === button.dataset.sort;
    const rises = now.startsWith("-") !== (button.dataset.sort === "name");
    button.parentElement.ariaSort = mine ? (rises ? "ascending" : "descending") : null;
  }
}

function jump(event) {
  event.preventDefault();
  const number = $("jump").value.trim();
  if (/^\d+$/.test(number)) location.search = `?${new URLSearchParams({ segment: asked.get("segment"), from: number })}`;
}

function beginSegment() {
  $("jump-form").addEventListener("submit", jump);
  const name = asked.get("segment");
  document.title = `${name} – streamd`;
  put("segment-name", name === "" ? "(no name)" : name);
  put("records-title", asked.has("from") ? `Messages from ${asked.get("from")}` : "Last messages");
}

function beginOverview() {
  let typing = 0;
  $("search").value = asked.get("search") ?? "";
  for (const name of ["live", "system"]) $(name).hidden = (name === "system") !== system;
  $("to-system").ariaCurrent = system ? "page" : null;
  $("to-topics").ariaCurrent = system ? null : "page";
  for (const button of document.querySelectorAll("[data-sort]")) button.addEventListener("click", () => sortBy(button));
  markSorted();
  $("search").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => ask({ search: $("search").value, page: "" }), 300);
  });
  $("earlier").addEventListener("click", () => turn($("earlier"), -1));
  $("later").addEventListener("click", () => turn($("later"), 1));
}

function begin() {
  $(page).hidden = false;
  (page === "segment" ? beginSegment : beginOverview)();
  document.querySelectorAll("table").forEach(nameRoles);
  $("pause").hidden = false;
  $("pause").addEventListener("click", pause);
  addEventListener("resize", () => {
    redraw();
    markScrollable();
  });
  document.addEventListener("visibilitychange", follow);
  redraw();
  connect();
}

begin();
