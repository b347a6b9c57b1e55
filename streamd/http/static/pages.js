// What an event of the daemon looks like: on the overview, the system's page, and the page of one topic.

import { $, SAMPLES_MAX, cells, facts, fill, linear, logarithmic, make, plot, put, segmentLink, spark, tableRow }
  from "./elements.js";
import { ago, bytes, count, counted, duration, exactly, forget, instant, moment, rate, rates, span } from "./figures.js";

export const asked = new URLSearchParams(location.search);
let samples = [];

// A new stream begins: what was gathered of the last one has gaps by now.
export function forgetAll() {
  samples = [];
  forget();
}

// -- the overview ----------------------------------------------------------------------------------------------------

function plotOverview() {
  const column = (at) => samples.map((sample) => sample[at]);
  plot($("throughput"), [column(1), column(3)], ["appended", "read"], count, linear(10));
  plot($("latency"), [column(6), column(7)], ["p50", "p99"], duration, logarithmic(0.0001, 0.01));
  const last = samples.at(-1);
  if (!last) return;
  put("throughput-text", `Now ${count(last[1])} appended and ${count(last[3])} read.`);
  put("latency-text", last[7] === null ? "No commits now." : `Now ${duration(last[6])}, and ${duration(last[7])}.`);
}

function showNow(event) {
  const last = samples.at(-1);
  if (last) {
    put("now-appended", `${count(last[1])} /s`);
    put("now-appended-bytes", `${bytes(last[2])}/s`);
    put("now-read", `${count(last[3])} /s`);
    put("now-read-bytes", `${bytes(last[4])}/s`);
    put("now-commits", `${count(last[5])} /s`);
    put("now-latency", last[7] === null ? "none now" : `p99 ${duration(last[7])}`);
  }
  const { store, groups } = event;
  const own = store.journal_bytes + store.pack_bytes + store.other_bytes;
  put("now-connections", count(event.protocols.reduce((sum, each) => sum + (each.name === "http" ? 0 : each.connections), 0)));
  put("now-held", `${bytes(store.held_bytes)} buffered`);
  put("now-disk", bytes(own));
  put("now-free", `${bytes(store.free_bytes)} free`);
  put("now-lag", count(groups.lag_records));
  put("now-groups", counted(groups.total, "group"));
}

function showStore(store) {
  const used = store.disk_bytes - store.free_bytes;
  $("disk").value = store.disk_bytes ? used / store.disk_bytes : 0;
  put("disk-text", `${bytes(used)} of ${bytes(store.disk_bytes)} are used`);
  const compactor = store.compactor_running ? "runs" : "does not run";
  facts($("store"), [
    ["Acknowledged", store.sync === "always" ? "after fdatasync" : `before fdatasync (sync = ${store.sync})`],
    ["Journal", `${bytes(store.journal_bytes)} in ${counted(store.journal_files, "file")}`],
    ["Packs", `${bytes(store.pack_bytes)} in ${counted(store.pack_files, "file")}`],
    ["Catalog", bytes(store.other_bytes)],
    ["Not folded", `${count(store.unfolded_entries)} entries, ${bytes(store.unfolded_bytes)}`],
    ["Compactor", store.writers_waiting ? `${compactor}, and writers wait for it` : compactor],
    ["Commits", `${count(store.commits)} since the start, ${bytes(store.pending_bytes)} pending`],
  ]);
}

function showProtocols(protocols, seconds) {
  const body = $("protocols");
  const begin = (each) => tableRow(body, each.name, Array(5).fill("number"));
  fill(body, protocols, (each) => each.name, begin, (row, each) => {
    const [appended, read] = rates(`protocol ${each.name}`, seconds, [each.appended_records, each.read_records]);
    cells(row, [count(each.connections), rate(appended), rate(read), count(each.refused), count(each.cut_off)]);
  });
}

function showGroups(groups) {
  $("groups-card").hidden = groups.worst.length === 0;
  const body = $("groups");
  const key = (each) => JSON.stringify([each.segment, each.group]);
  const begin = (each) => {
    const row = tableRow(body, each.group, ["", "number", "number"]);
    row.children[1].append(segmentLink(each.segment));
    return row;
  };
  fill(body, groups.worst, key, begin, (row, each) => {
    put(row.children[2], exactly(each.position));
    put(row.children[3], count(each.lag));
  });
}

function emptiness(segments) {
  if (asked.get("search")) return "No topic has this in its name.";
  if (!segments.all) return "There are no topics that you have a right on.";
  return "There are no topics yet.";
}

function showPager(segments) {
  $("pager").hidden = segments.pages < 2 && segments.page < 2;
  // Not disabled: that would take the focus away from who turns pages with the keyboard.
  $("earlier").ariaDisabled = segments.page < 2;
  $("later").ariaDisabled = segments.page >= segments.pages;
  put("page", `Page ${segments.page} of ${segments.pages}`);
}

function showSegments(segments, { uptime_seconds, now }) {
  put("segments-total", exactly(segments.total) + (segments.all ? "" : ", those that you have a right on"));
  const none = segments.rows.length === 0;
  $("segments-none").hidden = !none;
  $("segments-table").hidden = none;
  put("segments-none", emptiness(segments));
  showPager(segments);
  const body = $("segments");
  const begin = (each) => tableRow(body, segmentLink(each.name), [...Array(4).fill("number"), "", ""]);
  fill(body, segments.rows, (each) => each.id, begin, (row, each) => {
    const [records] = rates(`segment ${each.id}`, uptime_seconds, [each.number]);
    put(row.children[1], count(each.number - each.first_number));
    put(row.children[2], bytes(each.offset - each.first_offset));
    spark(row.children[3], each.rates);
    put(row.children[3].firstChild, rate(records));
    put(row.children[4], each.lag < 0 ? "–" : count(each.lag));
    put(row.children[5], ago(each.modified, now));
    row.children[5].title = instant(each.modified);
    put(row.children[6], each.sealed ? "sealed" : "open");
  });
}

// What to type to begin with, on the ports where this daemon listens.
function showQuickStart(addresses, segments) {
  const sesp = addresses.sesp?.[0];
  $("start").hidden = segments.total > 0 || asked.has("search") || !segments.all;
  const site = new URL("./", location).href;
  const [host, port] = (sesp ?? "").split(/:(?=\d+$)/);
  const lines = [`curl --data-binary hello '${site}topics/first?create=true'`, `curl '${site}topics/first'`];
  if (port) lines.push("", "# or by telnet: make a topic, select it, publish", `telnet ${host} ${port}`, "#second", "@second", ">hello");
  put("start-text", lines.join("\n"));
}

function showLimits(limits, addresses) {
  facts($("limits"), Object.entries(limits).map(([name, value]) => [name, exactly(value)]));
  facts($("addresses"), Object.entries(addresses).map(([name, places]) => [name, places.join(", ")]));
}

export function showOverview(event) {
  showLimits(event.limits, event.addresses);
  showQuickStart(event.addresses, event.segments);
  samples = [...samples, ...event.samples].slice(-SAMPLES_MAX);
  showNow(event);
  plotOverview();
  showProtocols(event.protocols, event.state.uptime_seconds);
  showStore(event.store);
  showGroups(event.groups);
  showSegments(event.segments, event.state);
}

// -- one segment -----------------------------------------------------------------------------------------------------

function plotSegment() {
  plot($("segment-rate"), [samples], ["messages/s"], count, linear(10));
  const last = samples.at(-1) ?? null;
  put("segment-rate-text", last === null ? "" : `Now ${count(last)}.`);
}

function kept(rule) {
  if (rule === null) return "everything";
  const limits = [];
  if (rule.bytes_max) limits.push(bytes(rule.bytes_max));
  if (rule.records_max) limits.push(`${count(rule.records_max)} messages`);
  if (rule.age_seconds_max) limits.push(span(rule.age_seconds_max));
  if (rule.idle_seconds_max) limits.push(`deleted when idle for ${span(rule.idle_seconds_max)}`);
  return limits.length ? `${limits.join(", ")} (rule ${rule.pattern})` : `everything (rule ${rule.pattern})`;
}

function numbers(segment) {
  const next = exactly(segment.number);
  if (segment.number === segment.first_number) return `none, the next is ${next}`;
  return `${exactly(segment.first_number)} to ${exactly(segment.number - 1)}`;
}

function showFacts(segment, { uptime_seconds, now }) {
  const [records, size] = rates(`segment ${segment.id}`, uptime_seconds, [segment.number, segment.offset]);
  samples = segment.rates;
  plotSegment();
  facts($("segment-facts"), [
    ["Messages", `${exactly(segment.number - segment.first_number)}, ${rate(records)} /s`],
    ["Offsets", numbers(segment)],
    ["Size", `${bytes(segment.offset - segment.first_offset)}, ${rate(size, bytes)}/s`],
    ["Created", instant(segment.created)],
    ["Written", `${instant(segment.modified)}, ${ago(segment.modified, now)}`],
    ["Sealed", segment.sealed ? "yes, it takes no more messages" : "no"],
    ["Writers", `${count(segment.writers)} with an ack level`],
    ["Kept", kept(segment.retention)],
  ]);
}

function showReaders(segment) {
  $("segment-groups-card").hidden = segment.groups_total === 0;
  const more = segment.groups_total > segment.groups.length;
  put("segment-groups-title", more ? `The last ${segment.groups.length} of ${segment.groups_total} reader groups`
    : "Reader groups");
  const body = $("segment-groups");
  const begin = (each) => tableRow(body, each.group, ["number", "number", "number", "number", "number", "number"]);
  fill(body, segment.groups, (each) => each.group, begin, (row, each) => {
    cells(row, [exactly(each.position), count(each.lag), count(each.members), count(each.outstanding),
      count(each.waiting), count(each.dead_letters)]);
  });
}

function go(link, from) {
  if (from === null) link.removeAttribute("href");
  else link.href = `?${new URLSearchParams({ segment: asked.get("segment"), ...from })}`;
}

function sizeOf(record) {
  const kind = record.kind === "hex" ? ", binary" : "";
  return `${bytes(record.bytes)}${kind}${record.cut ? ", cut" : ""}`;
}

// JSON is laid out, where it is whole; everything else is shown as it is.
function pretty(record) {
  if (record.kind !== "text" || record.cut || !/^\s*[[{]/.test(record.shown)) return record.shown;
  try {
    return JSON.stringify(JSON.parse(record.shown), null, 2);
  } catch {
    return record.shown;
  }
}

function showRecords(records, segment) {
  $("records-none").hidden = records.length > 0;
  const begin = () => {
    const item = make("li");
    const more = make("details");
    const copy = make("button", "Copy");
    copy.type = "button";
    copy.addEventListener("click", () => navigator.clipboard?.writeText(more.lastChild.textContent).then(
      () => put(copy, "Copied"), () => put(copy, "Not allowed")));
    more.append(make("summary"), copy, make("pre"));
    item.append(make("span", "", "record-number"), make("span", "", "quiet"), make("span", "", "quiet"), more);
    return item;
  };
  // The last ones stand on top.
  fill($("records"), [...records].reverse(), (each) => each.number, begin, (item, each) => {
    const [number, time, size, more] = item.children;
    const text = more.lastChild;
    put(number, exactly(each.number));
    put(time, instant(each.time));
    put(size, sizeOf(each));
    text.className = each.kind;
    put(text, pretty(each));
    put(more.firstChild, each.shown === "" ? "(empty)" : each.shown.split("\n", 1)[0].slice(0, 300));
  });
  const first = records.length ? records[0].number : segment.number;
  const end = records.length ? records.at(-1).number + 1 : segment.number;
  go($("older"), first > segment.first_number ? { from: Math.max(segment.first_number, first - 20) } : null);
  go($("newer"), end < segment.number ? { from: end } : null);
  go($("latest"), asked.has("from") ? {} : null);
}

export function showSegment(event) {
  const { segment } = event;
  const notice = segment === null ? "There is no topic of this name now." : (event.error ?? "");
  put("segment-notice", notice);
  $("segment-notice").hidden = notice === "";
  $("segment-there").hidden = segment === null;
  if (segment === null) return;
  showFacts(segment, event.state);
  showReaders(segment);
  put("records-none", event.withheld
    ? 'You have no right to read these messages: that takes a rule of access with "read" for this topic.'
    : "There are no messages here.");
  $("records-nav").hidden = event.withheld;
  if (event.withheld || event.records) showRecords(event.records ?? [], segment);
}

export const redraw = () => (asked.has("segment") ? plotSegment : plotOverview)();
