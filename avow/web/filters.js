// Filters as controls: each writes its clause of the filter's own language, and reads it back.

import { find, on } from "./build.js";

const quoted = (text) => `"${text.replace(/[\\"]/g, "\\$&")}"`;
const plain = (text) => text.replace(/^"(.*)"$/s, "$1").replace(/\\(.)/gs, "$1");
const CLAUSES = {
  from: [/^taken\s*>=\s*(\d{4}-\d\d-\d\d)$/i, (day) => `taken>=${day}`],
  to: [/^taken\s*<=\s*(\d{4}-\d\d-\d\d)$/i, (day) => `taken<=${day}`],
  folder: [/^folder\s*~\s*(".*"|\S+)$/is, (text) => `folder~${quoted(text)}`],
  tag: [/^tag\s*=\s*(".*"|\S+)$/is, (text) => `tag=${quoted(text)}`],
  size: [/^size\s*>=\s*(\S+)$/i, (bytes) => `size>=${bytes}`],
  least: [/^p\s*>=\s*(\S+)$/i, (share) => `p>=${share}`],
};

// The parts of a filter between "and", outside of quotation marks and brackets.
function clauses(text) {
  const parts = [""];
  let depth = 0;
  for (const [piece] of text.matchAll(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\s+and\s+|[()]|./gis)) {
    depth += { "(": 1, ")": -1 }[piece] ?? 0;
    if (!depth && /^\s+and\s+$/i.test(piece)) parts.push("");
    else parts[parts.length - 1] += piece;
  }
  return parts.map((part) => part.trim()).filter(Boolean);
}

// Show in the controls what the filter says; what they cannot show stays in the filter alone.
export function read() {
  const parts = clauses(find("where").value);
  for (const [key, [pattern]] of Object.entries(CLAUSES)) {
    const said = parts.map((part) => part.match(pattern)).find(Boolean);
    set(key, said ? plain(said[1]) : "");
  }
}

// A choice that is not among those offered is added to them.
export function set(key, value) {
  const control = find(key);
  control.value = value;
  if (control.value !== value) {
    control.add?.(new Option(value));
    control.value = value;
  }
}

function write(key) {
  const [pattern, said] = CLAUSES[key];
  const value = find(key).value.trim();
  const parts = clauses(find("where").value).filter((part) => !pattern.test(part));
  // an "or" beside "and" needs brackets to mean what it meant
  if (value && /\sor\s/i.test(parts.join(" ")) && !/^\(/.test(parts[0])) parts.splice(0, Infinity, `(${parts.join(" and ")})`);
  find("where").value = [...parts, ...(value ? [said(value)] : [])].join(" and ");
}

export function listen(changed) {
  on("where", "input", read);
  for (const key of Object.keys(CLAUSES)) {
    on(key, "change", () => {
      write(key);
      changed();
    });
  }
}
