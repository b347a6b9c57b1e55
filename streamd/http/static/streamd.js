// The dashboard's script. One stream of events brings all that a page shows; nothing is asked for in between, and all
// text goes in as text, so that a record or a name is never markup.

const SAMPLES_MAX = 300;
const AGAIN_MS = 5000;

const $ = (id) => document.getElementById(id);
const asked = new URLSearchParams(location.search);
const view = { samples: [], rates: new Map(), source: null, again: 0 };

// -- numbers as people read them -------------------------------------------------------------------------------------

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

function count(value) {
  if (value >= 1e9) return `${short.format(value / 1e9)} G`;
  if (value >= 1e6) return `${short.format(value / 1e6)} M`;
  return value > 0 && value < 10 ? short.format(value) : whole.format(value);
}

function bytes(value) {
  let unit = "B";
  for (const next of ["kB", "MB", "GB", "TB", "PB"]) {
    if (value < 1000) break;
    value /= 1000;
    unit = next;
  }
  return `${unit === "B" ? whole.format(value) : short.format(value)} ${unit}`;
}

function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0.001) return `${short.format(seconds * 1e6)} µs`;
  return seconds < 1 ? `${short.format(seconds * 1000)} ms` : `${short.format(seconds)} s`;
}

function span(seconds) {
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const at = parts.findIndex(([size]) => seconds >= size);
  if (at < 0) return "0 s";
  const [size, unit] = parts[at];
  const first = `${Math.floor(seconds / size)} ${unit}`;
  if (at === parts.length - 1) return first;
  const [less, word] = parts[at + 1];
  return `${first} ${Math.floor((seconds % size) / less)} ${word}`;
}

const counted = (value, word) => `${count(value)} ${word}${value === 1 ? "" : "s"}`;

const moment = (seconds) => new Date(seconds * 1000).toLocaleString();

// -- small tools for the page ----------------------------------------------------------------------------------------

function put(id, text) {
  const element = typeof id === "string" ? $(id) : id;
  if (element.textContent !== text) element.textContent = text;
}

function make(tag, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
}

// Rows are kept and filled again, so that whoever has the focus on a link in one keeps it.
function fill(body, items, key, begin, show) {
  const known = new Map([...body.children].map((row) => [row.dataset.key, row]));
  const rows = items.map((item) => {
    const name = String(key(item));
    const row = known.get(name) ?? begin(item);
    row.dataset.key = name;
    show(row, item);
    return row;
  });
  const same = rows.length === body.children.length && rows.every((row, at) => row === body.children[at]);
  if (!same) body.replaceChildren(...rows);
}

function tableRow(first, cells) {
  const row = make("tr");
  const head = make("th");
  head.scope = "row";
  head.append(first);
  row.append(head, ...cells.map((kind) => make("td", "", kind)));
  return row;
}

function cells(row, texts) {
  texts.forEach((text, at) => put(row.children[at + 1], text));
}

function facts(list, pairs) {
  if (list.children.length !== pairs.length * 2) {
    list.replaceChildren(...pairs.flatMap(() => [make("dt"), make("dd")]));
  }
  pairs.forEach(([name, text], at) => {
    put(list.children[2 * at], name);
    put(list.children[2 * at + 1], text);
  });
}

function segmentLink(name) {
  const link = make("a", name === "" ? "(no name)" : name);
  link.href = `?${new URLSearchParams({ segment: name })}`;
  return link;
}

// What rose by how much a second since the last event. Nothing is known the first time.
function rates(key, seconds, values) {
  const before = view.rates.get(key);
  view.rates.set(key, { seconds, values });
  if (!before || seconds <= before.seconds) return values.map(() => null);
  return values.map((value, at) => Math.max(0, value - before.values[at]) / (seconds - before.seconds));
}

const rate = (value, show = count) => (value === null ? "–" : show(value));

// -- plots -----------------------------------------------------------------------------------------------------------

function drawn(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// The least of 1, 2, 5, 10, 20, … that is not below a value.
function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value * 0.9999);
}

function plot(svg, lines, show, least) {
  const width = svg.clientWidth || 600;
  const height = svg.clientHeight || 176;
  const [left, top, right, bottom] = [58, 8, width - 6, height - 20];
  const top_value = ceiling(Math.max(least, ...lines.flat().filter((value) => value !== null)));
  const x = (at, length) => right - ((right - left) * (length - 1 - at)) / (SAMPLES_MAX - 1);
  const y = (value) => bottom - ((bottom - top) * value) / top_value;
  const parts = [0, 0.5, 1].flatMap((share) => [
    drawn("line", { class: "grid", x1: left, x2: right, y1: y(share * top_value), y2: y(share * top_value) }),
    drawn("text", { x: left - 6, y: y(share * top_value) + 4, "text-anchor": "end" }, show(share * top_value)),
  ]);
  parts.push(drawn("text", { x: left, y: height - 4 }, "5 min ago"));
  parts.push(drawn("text", { x: right, y: height - 4, "text-anchor": "end" }, "now"));
  lines.forEach((values, line) => {
    let path = "";
    let pen = "M";
    values.forEach((value, at) => {
      if (value !== null) path += `${pen}${x(at, values.length).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = value === null ? "M" : "L";
    });
    // A line that begins and ends at one point shows as a dot.
    if (path) parts.push(drawn("path", { class: line ? "two" : "one", d: `${path}h.01`, "stroke-linecap": "round" }));
  });
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren(...parts);
}

function plots() {
  const column = (at) => view.samples.map((sample) => sample[at]);
  plot($("throughput"), [column(1), column(3)], count, 10);
  plot($("latency"), [column(6), column(7)], duration, 0.001);
  const last = view.samples.at(-1);
  if (!last) return;
  put("throughput-text", `Now ${count(last[1])} appended and ${count(last[3])} read.`);
  put("latency-text", last[7] === null ? "No commits now." : `Now ${duration(last[6])}, and ${duration(last[7])}.`);
}

// -- the overview ----------------------------------------------------------------------------------------------------

function showState(state) {
  const chip = $("state");
  chip.className = `chip ${state.not_ready === null ? "good" : "bad"}`;
  put(chip, state.not_ready === null ? "ready" : `not ready: ${state.not_ready}`);
  put("version", state.version);
  put("uptime", `· up ${span(state.uptime_seconds)}`);
  document.body.classList.remove("stale");
}

function showNow(event) {
  const last = view.samples.at(-1);
  if (last) {
    put("now-appended", `${count(last[1])} /s`);
    put("now-appended-bytes", `${bytes(last[2])}/s`);
    put("now-read", `${count(last[3])} /s`);
    put("now-read-bytes", `${bytes(last[4])}/s`);
    put("now-commits", `${count(last[5])} /s`);
    put("now-latency", last[7] === null ? "" : `99 % under ${duration(last[7])}`);
  }
  const { store, groups } = event;
  const own = store.journal_bytes + store.pack_bytes + store.other_bytes;
  put("now-connections", count(event.protocols.reduce((sum, each) => sum + each.connections, 0)));
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
  $("protocols-none").hidden = protocols.length > 0;
  const begin = (each) => tableRow(each.name, Array(5).fill("number"));
  fill($("protocols"), protocols, (each) => each.name, begin, (row, each) => {
    const [appended, read] = rates(`protocol ${each.name}`, seconds, [each.appended_records, each.read_records]);
    cells(row, [count(each.connections), rate(appended), rate(read), count(each.refused), count(each.cut_off)]);
  });
}

function showGroups(groups) {
  $("groups-card").hidden = groups.worst.length === 0;
  const key = (each) => JSON.stringify([each.segment, each.group]);
  const begin = (each) => {
    const row = tableRow(each.group, ["", "number", "number"]);
    row.children[1].append(segmentLink(each.segment));
    return row;
  };
  fill($("groups"), groups.worst, key, begin, (row, each) => {
    put(row.children[2], whole.format(each.position));
    put(row.children[3], count(each.lag));
  });
}

function showSegments(segments, seconds) {
  put("segments-total", whole.format(segments.total));
  const none = segments.rows.length === 0;
  $("segments-none").hidden = !none;
  put("segments-none", asked.get("search") ? "No segment has this in its name." : "There are no segments yet.");
  $("pager").hidden = segments.pages < 2 && segments.page < 2;
  $("earlier").disabled = segments.page < 2;
  $("later").disabled = segments.page >= segments.pages;
  put("page", `Page ${segments.page} of ${segments.pages}`);
  const begin = (each) => tableRow(segmentLink(each.name), [...Array(4).fill("number"), ""]);
  fill($("segments"), segments.rows, (each) => each.id, begin, (row, each) => {
    const [records, size] = rates(`segment ${each.id}`, seconds, [each.number, each.offset]);
    cells(row, [
      count(each.number - each.first_number),
      bytes(each.offset - each.first_offset),
      rate(records),
      rate(size, bytes),
      moment(each.modified) + (each.sealed ? ", sealed" : ""),
    ]);
  });
}

function showOverview(event) {
  view.samples = [...view.samples, ...event.samples].slice(-SAMPLES_MAX);
  const seconds = event.state.uptime_seconds;
  showNow(event);
  plots();
  showProtocols(event.protocols, seconds);
  showStore(event.store);
  showGroups(event.groups);
  showSegments(event.segments, seconds);
}

// -- one segment -----------------------------------------------------------------------------------------------------

function kept(rule) {
  if (rule === null) return "everything";
  const limits = [];
  if (rule.bytes_max) limits.push(bytes(rule.bytes_max));
  if (rule.records_max) limits.push(`${count(rule.records_max)} records`);
  if (rule.age_seconds_max) limits.push(span(rule.age_seconds_max));
  if (rule.idle_seconds_max) limits.push(`deleted when idle for ${span(rule.idle_seconds_max)}`);
  return limits.length ? `${limits.join(", ")} (rule ${rule.pattern})` : `everything (rule ${rule.pattern})`;
}

function numbers(segment) {
  const next = whole.format(segment.number);
  if (segment.number === segment.first_number) return `none, the next is ${next}`;
  return `${whole.format(segment.first_number)} to ${whole.format(segment.number - 1)}`;
}

function go(link, from) {
  if (from === null) link.removeAttribute("href");
  else link.href = `?${new URLSearchParams({ segment: asked.get("segment"), ...from })}`;
}

function showSegment(event) {
  const { segment } = event;
  const notice = segment === null ? "There is no segment of this name now." : (event.error ?? "");
  put("segment-notice", notice);
  $("segment-notice").hidden = notice === "";
  $("segment-there").hidden = segment === null;
  if (segment === null) return;
  const seconds = event.state.uptime_seconds;
  const [records, size] = rates(`segment ${segment.id}`, seconds, [segment.number, segment.offset]);
  facts($("segment-facts"), [
    ["Records", `${whole.format(segment.number - segment.first_number)}, ${rate(records)} /s`],
    ["Numbers", numbers(segment)],
    ["Size", `${bytes(segment.offset - segment.first_offset)}, ${rate(size, bytes)}/s`],
    ["Created", moment(segment.created)],
    ["Written", moment(segment.modified) + (segment.sealed ? ", sealed" : "")],
    ["Writers", count(segment.writers)],
    ["Kept", kept(segment.retention)],
  ]);
  $("segment-groups-card").hidden = segment.groups_total === 0;
  const more = segment.groups_total > segment.groups.length;
  put("segment-groups-title", more ? `The last ${segment.groups.length} of ${segment.groups_total} reader groups`
    : "Reader groups");
  const begin = (each) => tableRow(each.group, ["number", "number"]);
  fill($("segment-groups"), segment.groups, (each) => each.group, begin, (row, each) => {
    cells(row, [whole.format(each.position), count(each.lag)]);
  });
  if (event.records) showRecords(event.records, segment);
}

function showRecords(records, segment) {
  $("records-none").hidden = records.length > 0;
  const begin = () => {
    const item = make("li");
    item.append(make("span", "", "quiet"), make("pre"));
    return item;
  };
  // The last ones stand on top.
  fill($("records"), [...records].reverse(), (each) => each.number, begin, (item, each) => {
    const size = each.kind === "hex" ? `${bytes(each.bytes)}, binary` : bytes(each.bytes);
    put(item.firstChild, `${whole.format(each.number)} · ${moment(each.time)} · ${size}${each.cut ? ", cut" : ""}`);
    item.lastChild.className = each.kind;
    put(item.lastChild, each.shown === "" ? "(empty)" : each.shown);
  });
  const first = records.length ? records[0].number : segment.number;
  const end = records.length ? records.at(-1).number + 1 : segment.number;
  go($("older"), first > segment.first_number ? { from: Math.max(segment.first_number, first - 20) } : null);
  go($("newer"), end < segment.number ? { from: end } : null);
  go($("latest"), asked.has("from") ? {} : null);
}

// -- the stream ------------------------------------------------------------------------------------------------------

function lost(text) {
  const chip = $("state");
  chip.className = "chip bad";
  put(chip, text);
  document.body.classList.add("stale");
}

function connect() {
  disconnect();
  const source = new EventSource(`events?${asked}`);
  view.source = source;
  source.onopen = () => {
    view.samples = [];
    view.rates.clear();
  };
  source.onmessage = (message) => {
    const event = JSON.parse(message.data);
    showState(event.state);
    (asked.has("segment") ? showSegment : showOverview)(event);
  };
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) {
      // Refused, perhaps since too many pages are open: the browser does not try again by itself.
      lost("refused, trying again");
      view.again = setTimeout(connect, AGAIN_MS);
    } else {
      lost("no connection");
    }
  };
}

function disconnect() {
  clearTimeout(view.again);
  view.source?.close();
  view.source = null;
}

function ask(changes) {
  for (const [name, value] of Object.entries(changes)) {
    if (value === "") asked.delete(name);
    else asked.set(name, value);
  }
  const query = asked.toString();
  history.replaceState(null, "", query ? `?${query}` : "./");
  connect();
}

function begin() {
  const one = asked.has("segment");
  $(one ? "segment" : "overview").hidden = false;
  if (one) {
    const name = asked.get("segment");
    document.title = `${name} – streamd`;
    put("segment-name", name === "" ? "(no name)" : name);
    put("records-title", asked.has("from") ? `Records from ${asked.get("from")}` : "Last records");
  } else {
    let typing = 0;
    $("search").value = asked.get("search") ?? "";
    $("sort").value = asked.get("sort") ?? "name";
    $("search").addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(() => ask({ search: $("search").value, page: "" }), 300);
    });
    $("sort").addEventListener("change", () => ask({ sort: $("sort").value, page: "" }));
    const page = () => Number(asked.get("page") ?? 1);
    $("earlier").addEventListener("click", () => ask({ page: String(page() - 1) }));
    $("later").addEventListener("click", () => ask({ page: String(page() + 1) }));
    addEventListener("resize", plots);
    plots();
  }
  // A page that nobody sees costs nobody anything.
  document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
  connect();
}

begin();
