// Pictures that were picked: a bar with what can be done with all of them.

import { send } from "./api.js";
import { attempt, button, fill, make, press, say } from "./build.js";
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
  tell();
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
  fill("picked", picked.size ? [
    make("p", { role: "status" }, count(picked.size, "picture picked", "pictures picked")),
    button("act", zip, "Zip"),
    button("act", table, "CSV"),
    press("close", "Pick none", () => clear(asked)),
  ] : null);
}

const save = (href, download) => make("a", { href, download }).click();

// The archive has an address, so that the browser itself writes one of any size to its file.
const zip = () => attempt(async () => {
  const told = await send("api/export", { ids: [...picked.keys()] });
  save(`api/export/${told.name}`, "avow.zip");
  const left = told.left_out.length;
  if (left) say(`${count(left, "file is", "files are")} left out; “left out.txt” in the zip says why.`);
});

function table() {
  const columns = ["path", "p_relevant", "similarity", "kind", "start", "end", "taken", "question"];
  const cell = (value) => {
    const text = String(value ?? "");
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const rows = [...picked.values()].map((hit) => columns.map((key) => cell({ ...hit, question: asked }[key])));
  const text = [columns, ...rows].map((row) => row.join(",")).join("\r\n");
  const address = URL.createObjectURL(new Blob([`${text}\r\n`], { type: "text/csv" }));
  save(address, "avow.csv");
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
