// What pages are made of: text, rows, lists of facts, and plots. All text goes in as text, so that a record or a name
// is never markup.

export const $ = (id) => document.getElementById(id);

export function put(id, text) {
  const element = typeof id === "string" ? $(id) : id;
  if (element.textContent !== text) element.textContent = text;
}

export function make(tag, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
}

// Rows are kept and filled again, and moved where their order changes: who has the focus on a link in one keeps it.
export function fill(body, items, key, begin, show) {
  const known = new Map([...body.children].map((row) => [row.dataset.key, row]));
  const rows = items.map((item) => {
    const name = String(key(item));
    const row = known.get(name) ?? begin(item);
    row.dataset.key = name;
    show(row, item);
    return row;
  });
  if (rows.length === body.children.length && rows.every((row, at) => row === body.children[at])) return;
  const focused = document.activeElement;
  body.replaceChildren(...rows);
  if (body.contains(focused)) focused.focus({ preventScroll: true });
}

// The roles that the parts of a table have anyhow. Some browsers forget them where rows are not laid out as rows.
export function nameRoles(table) {
  table.role = "table";
  for (const part of [table.tHead, ...table.tBodies]) part.role = "rowgroup";
  for (const row of table.rows) row.role = "row";
  for (const head of table.tHead.rows[0].cells) head.role = "columnheader";
}

// A row of a table. Each cell knows the head of its column, which stands above it on a narrow screen.
export function tableRow(body, first, kinds) {
  const heads = body.parentElement.tHead.rows[0].cells;
  const row = make("tr");
  const head = make("th");
  row.role = "row";
  head.scope = "row";
  head.role = "rowheader";
  head.append(first);
  row.append(head);
  kinds.forEach((kind, at) => {
    const cell = make("td", "", kind);
    cell.role = "cell";
    cell.dataset.head = heads[at + 1].textContent;
    row.append(cell);
  });
  return row;
}

export function cells(row, texts) {
  texts.forEach((text, at) => put(row.children[at + 1], text));
}

export function facts(list, pairs) {
  if (list.children.length !== pairs.length * 2) {
    list.replaceChildren(...pairs.flatMap(() => [make("dt"), make("dd")]));
  }
  pairs.forEach(([name, text], at) => {
    put(list.children[2 * at], name);
    put(list.children[2 * at + 1], text);
  });
}

export function segmentLink(name) {
  const link = make("a", name === "" ? "(no name)" : name);
  link.href = `?${new URLSearchParams({ segment: name })}`;
  return link;
}

// -- plots -----------------------------------------------------------------------------------------------------------

export const SAMPLES_MAX = 300;

function drawn(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// A scale says where between bottom (0) and top (1) a value is, and which values have a line. This one begins at 0 and
// ends at a round number that none is above.
export function linear(least) {
  return (values) => {
    const most = Math.max(least, ...values);
    const power = 10 ** Math.floor(Math.log10(most));
    const top = [1, 2, 3, 4, 6, 8, 10].map((step) => step * power).find((step) => step >= most * 0.9999);
    return { place: (value) => value / top, ticks: [0, top / 2, top] };
  };
}

// Each line stands for ten times the one below: what is usual and what is rare are both seen.
export function logarithmic(least, most) {
  return (values) => {
    const low = Math.floor(Math.log10(Math.max(1e-6, Math.min(least, ...values))) + 1e-9);
    const high = Math.ceil(Math.log10(Math.max(most, ...values)) - 1e-9);
    const ticks = Array.from({ length: high - low + 1 }, (_, at) => 10 ** (low + at));
    return { place: (value) => (Math.log10(Math.max(value, 10 ** low)) - low) / (high - low), ticks };
  };
}

export function plot(svg, lines, names, show, scale) {
  const width = svg.clientWidth || 600;
  const height = svg.clientHeight || 176;
  const [left, top, right, bottom] = [58, 8, width - 6, height - 20];
  const { place, ticks } = scale(lines.flat().filter((value) => value !== null));
  const x = (at, length) => right - ((right - left) * (length - 1 - at)) / (SAMPLES_MAX - 1);
  const y = (value) => bottom - (bottom - top) * place(value);
  const parts = ticks.flatMap((value) => [
    drawn("line", { class: "grid", x1: left, x2: right, y1: y(value), y2: y(value) }),
    drawn("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, value === 0 ? "0" : show(value)),
  ]);
  for (const minutes of [5, 4, 3, 2, 1]) {
    const place = right - ((right - left) * minutes) / 5;
    parts.push(drawn("line", { class: "grid", x1: place, x2: place, y1: bottom, y2: bottom + 4 }));
    const anchor = minutes === 5 ? "start" : "middle";
    parts.push(drawn("text", { x: place, y: height - 4, "text-anchor": anchor }, `−${minutes} min`));
  }
  parts.push(drawn("text", { x: right, y: height - 4, "text-anchor": "end" }, "now"));
  lines.forEach((values, line) => {
    const where = (value, at) => `${x(at, values.length).toFixed(1)} ${y(value).toFixed(1)}`;
    const points = values.map((value, at) => (value === null ? null : where(value, at)));
    // Each stretch begins with a dot, so that one value between two seconds without any is seen as well.
    const path = points.map((point, at) => point && (points[at - 1] ? `L${point}` : `M${point}h.01`)).join("");
    if (path) parts.push(drawn("path", { class: line ? "two" : "one", d: path }));
  });
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const cross = drawn("line", { class: "cross", y1: top, y2: bottom, x1: -9, x2: -9 });
  const label = drawn("text", { class: "value", y: top + 10 });
  svg.replaceChildren(...parts, cross, label);
  svg.onpointermove = (event) => {
    const at = SAMPLES_MAX - 1 - Math.round(((right - event.offsetX) * (SAMPLES_MAX - 1)) / (right - left));
    const past = Math.min(SAMPLES_MAX - 1, Math.max(0, at));
    const texts = lines.map((values, line) => {
      const value = values[past - SAMPLES_MAX + values.length] ?? null;
      return `${names[line]} ${value === null ? "–" : show(value)}`;
    });
    const place = left + ((right - left) * past) / (SAMPLES_MAX - 1);
    svg.dataset.cross = past;
    for (const end of ["x1", "x2"]) cross.setAttribute(end, place);
    label.setAttribute("x", place + (past > SAMPLES_MAX / 2 ? -8 : 8));
    label.setAttribute("text-anchor", past > SAMPLES_MAX / 2 ? "end" : "start");
    label.textContent = `${SAMPLES_MAX - 1 - past} s ago: ${texts.join(", ")}`;
  };
  svg.onpointerleave = () => {
    for (const end of ["x1", "x2"]) cross.setAttribute(end, -9);
    label.textContent = "";
  };
}

// A curve without words, for a cell of a table.
export function spark(cell, values) {
  const [width, height] = [120, 22];
  const most = Math.max(1, ...values);
  const point = (value, at) => `${width - values.length * 2 + at * 2},${(height - 2 - (value / most) * (height - 4)).toFixed(1)}`;
  let svg = cell.querySelector("svg");
  if (!svg) {
    svg = drawn("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
    svg.append(drawn("polyline", {}));
    cell.replaceChildren(make("span"), svg);
  }
  svg.firstChild.setAttribute("points", values.map(point).join(" "));
}
