// Numbers, sizes and times as people read them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

export const exactly = (value) => whole.format(value);

export function count(value) {
  if (value >= 1e9) return `${short.format(value / 1e9)} G`;
  if (value >= 1e6) return `${short.format(value / 1e6)} M`;
  return value > 0 && value < 10 ? short.format(value) : whole.format(value);
}

export const counted = (value, word) => `${count(value)} ${word}${value === 1 ? "" : "s"}`;

export function bytes(value) {
  let unit = "B";
  for (const next of ["kB", "MB", "GB", "TB", "PB"]) {
    if (value < 1000) break;
    value /= 1000;
    unit = next;
  }
  return `${unit === "B" ? whole.format(value) : short.format(value)} ${unit}`;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0.001) return `${short.format(seconds * 1e6)} µs`;
  return seconds < 1 ? `${short.format(seconds * 1000)} ms` : `${short.format(seconds)} s`;
}

export function span(seconds) {
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const at = parts.findIndex(([size]) => seconds >= size);
  if (at < 0) return "0 s";
  const [size, unit] = parts[at];
  const first = `${Math.floor(seconds / size)} ${unit}`;
  if (at === parts.length - 1) return first;
  const [less, word] = parts[at + 1];
  return `${first} ${Math.floor((seconds % size) / less)} ${word}`;
}

// The Swedes write it as everybody can read it: 2026-11-17 05:15:26, by the reader's own clock.
export const moment = (seconds) => new Date(seconds * 1000).toLocaleString("sv-SE");

// To the millisecond and with the zone: for what is compared with other logs.
export function instant(seconds) {
  const date = new Date(seconds * 1000);
  const away = -date.getTimezoneOffset();
  const two = (number) => String(Math.floor(Math.abs(number))).padStart(2, "0");
  const zone = away === 0 ? "Z" : `${away < 0 ? "−" : "+"}${two(away / 60)}:${two(away % 60)}`;
  return `${moment(seconds)}.${String(date.getMilliseconds()).padStart(3, "0")} ${zone}`;
}

// How long before `now`, which is the daemon's: the reader's clock may be another.
export function ago(seconds, now) {
  const passed = now - seconds;
  return passed < 1.5 ? "just now" : `${span(passed)} ago`;
}

export const rate = (value, show = count) => (value === null ? "–" : show(value));

const seen = new Map();

// What rose by how much a second since the last event. Nothing is known the first time.
export function rates(key, seconds, values) {
  const before = seen.get(key);
  seen.set(key, { seconds, values });
  if (!before || seconds <= before.seconds) return values.map(() => null);
  return values.map((value, at) => Math.max(0, value - before.values[at]) / (seconds - before.seconds));
}

export const forget = () => seen.clear();
