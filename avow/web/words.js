// Numbers and names as people read them.

export function percent(share) {
  if (share == null) return "–";
  if (share > 0 && share < 0.01) return "< 1 %";
  if (share > 0.99 && share < 1) return "> 99 %";
  return `${Math.round(share * 100)} %`;
}

// Two digits at most, as the sentence of a verdict has them.
export const rounded = (number) => +Math.round(number).toPrecision(2);

// Nothing where nothing was stated.
export const stated = (share) => (share == null ? null : percent(share));

export const risk = (share) => `${+(share * 100).toFixed(1)} %`;

// "10 %", or "5 or 15 %" where kinds of queries differ.
export function risks(kinds) {
  const each = [...new Set(kinds.map((one) => risk(one.risk)))];
  return each.map((one, place) => (place < each.length - 1 ? one.replace(" %", "") : one)).join(" or ");
}

export const name = (path) => (path ? path.split(/[\\/]/).pop() : "");

export function clock(seconds) {
  const whole = Math.max(Math.floor(seconds), 0);
  const two = (number) => String(number).padStart(2, "0");
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

// "1:12–1:20", as the command line writes it; empty for what is no moment.
export function span({ start, end }) {
  if (start == null) return "";
  const first = Math.round(start);
  return `${clock(first)}–${clock(Math.max(Math.round(end), first + 1))}`;
}

export function bytes(size) {
  if (size == null) return "–";
  if (size < 1000) return `${size} bytes`;
  const [unit, by] = size < 1e6 ? ["kB", 1e3] : size < 1e9 ? ["MB", 1e6] : ["GB", 1e9];
  const number = size / by;
  return `${number < 10 ? number.toFixed(1) : Math.round(number)} ${unit}`;
}

export const grouped = (number) => number.toLocaleString("en-GB");

export const count = (number, one, many) => `${grouped(number)} ${number === 1 ? one : many}`;

export const NOUNS = {
  image: ["picture or moment", "pictures and moments"],
  picture: ["picture", "pictures"],
  video: ["moment", "moments"],
  text: ["text", "texts"],
};

export const sentence = (words) => words[0].toUpperCase() + words.slice(1);
