// Pictures that were picked: a bar with what can be done with all of them.

import { button, fill, find, make, press, say } from "./build.js";
import { count, name } from "./words.js";

const picked = new Map(); // hits by number
let asked = ""; // the question that their probabilities belong to

export function clear(question = "") {
  picked.clear();
  asked = question;
  tell();
}

export function toggle(hit) {
  if (!picked.delete(hit.id)) picked.set(hit.id, hit);
  tell(hit.id);
}

export function box(hit, words = null) {
  const input = make("input", { type: "checkbox", "data-pick": hit.id, "aria-label": `Pick ${name(hit.path)}` });
  input.checked = picked.has(hit.id);
  input.addEventListener("change", () => toggle(hit));
  return make("label", { class: "pick", title: "Pick (x)" }, input, words);
}

function tell() {
  for (const input of document.querySelectorAll("[data-pick]")) {
    input.checked = picked.has(+input.dataset.pick);
  }
  document.body.toggleAttribute("data-picking", picked.size > 0);
  fill(find("picked"), picked.size ? [
    make("p", { role: "status" }, count(picked.size, "picture picked", "pictures picked")),
    button("act", zip, "Zip"),
    button("act", table, "CSV"),
    press("close", "Pick none", () => clear(asked)),
  ] : null);
}

// A form and not a script, so that the browser writes an archive of any size to its file.
function zip() {
  const form = make(
    "form", { method: "post", action: "api/export/zip", hidden: true },
    make("input", { name: "ids", value: [...picked.keys()].join(",") }),
  );
  document.body.append(form);
  form.submit();
  form.remove();
  say("The archive is on its way.");
}

function table() {
  const columns = ["path", "p_relevant", "similarity", "kind", "start", "end", "taken", "question"];
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const rows = [...picked.values()].map((hit) => columns.map((key) => cell({ ...hit, question: asked }[key])));
  const text = [columns, ...rows].map((row) => row.join(",")).join("\r\n");
  const address = URL.createObjectURL(new Blob([`${text}\r\n`], { type: "text/csv" }));
  make("a", { href: address, download: "avow.csv" }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
