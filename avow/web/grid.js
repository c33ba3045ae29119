// One picture of a list: what it shows, how far to trust it, whether it fits.

import { send, thumbnail } from "./api.js";
import { attempt, icon, make, meter, pressed, say } from "./build.js";
import { box, toggle } from "./picked.js";
import { name, percent, span } from "./words.js";

const said = new Map(); // what was said of an item for the question on the page
let about = ""; // that question

// What was said stays as long as the same is asked.
export function forget(question) {
  if (question !== about) said.clear();
  about = question;
}

// Pictures that look the same are one answer, with the others behind it.
export function grouped(hits) {
  const heads = new Map();
  for (const hit of hits) {
    const head = hit.kind === "video" ? `v${hit.id}` : hit.same_as ?? hit.id;
    if (heads.has(head)) heads.get(head).alike.push(hit);
    else heads.set(head, { ...hit, alike: [] });
  }
  return [...heads.values()];
}

// isStop: whether the Tab key stops here.
export function card(hit, isStop, { open, question, wall }) {
  const look = pressed(
    {
      class: "look",
      "data-id": hit.id,
      tabindex: isStop ? "0" : "-1",
      "aria-label": described(hit),
      onclick: () => open(hit),
    },
    face(hit, wall ? 256 : 512),
    hit.kind === "video" ? make("span", { class: "when" }, span(hit)) : null,
    hit.alike?.length ? make("span", { class: "when same" }, alike(hit)) : null,
  );
  look.addEventListener("keydown", (event) => event.key === "x" && toggle(hit));
  const below = wall ? null : [trust(hit), make(
    "div",
    { class: "below" },
    make("span", { class: "name", title: hit.path }, name(hit.path)),
    question ? fits(hit.id, question) : null,
  )];
  return make("li", { class: "card" }, look, box(hit), below);
}

const alike = (hit) => `${hit.alike.length + 1} alike`;

function described(hit) {
  const judged = hit.p_relevant == null ? "" : `, fits with ${percent(hit.p_relevant)}`;
  const when = hit.kind === "video" ? ` ${span(hit)}` : "";
  const what = hit.kind === "text" ? hit.text : `${name(hit.path)}${when}`;
  const more = hit.alike?.length ? `, ${alike(hit)}` : "";
  return `${hit.rank ? `${hit.rank}. ` : ""}${what}${judged}${more}`;
}

export function face(hit, size) {
  if (hit.kind === "text") return make("blockquote", {}, hit.text ?? name(hit.path));
  const picture = make("img", { src: thumbnail(hit.id, size), alt: "", loading: "lazy" });
  picture.addEventListener("error", () => {
    picture.replaceWith(make("span", { class: "lost" }, `${name(hit.path)} cannot be shown`));
  });
  return picture;
}

export function trust(hit) {
  if (hit.by === "text") return make("p", { class: "trust written" }, `Written in it: “${hit.text.replace(/\s+/g, " ").slice(0, 90)}”`);
  const sure = hit.p_relevant;
  if (sure == null) {
    const close = hit.similarity?.toFixed(2).replace("-", "−");
    return make(
      "div", { class: "trust" },
      make("span", { class: "unsaid" }, close ? `similarity ${close}` : ""),
    );
  }
  return make(
    "div",
    { class: "trust", role: "img", "aria-label": `Fits with ${percent(sure)}` },
    meter(sure),
    make("b", {}, percent(sure)),
  );
}

// Yes and no; the one that is pressed takes back what it said.
export function fits(id, question, words = false) {
  const tell = (good) => attempt(async () => {
    const now = said.get(id) === good ? null : good;
    await send("api/feedback", { query: question, item_id: id, good: now });
    if (now === null) said.delete(id);
    else said.set(id, now);
    document.dispatchEvent(new CustomEvent("told", { detail: id }));
    if (now === null) say("Taken back.");
    else say(now ? "Noted: it fits." : "Noted: it does not fit.", { name: "Undo", run: () => tell(good) });
  });
  const buttons = [["yes", true, "Yes", "It fits"], ["no", false, "No", "It does not fit"]].map(
    ([says, good, short, long]) => {
      const button = pressed(
        { "data-says": says, title: long, "aria-label": words ? null : long, onclick: () => tell(good) },
        icon(says), words ? short : null,
      );
      const show = () => button.setAttribute("aria-pressed", String(said.get(id) === good));
      document.addEventListener("told", (event) => event.detail === id && show());
      show();
      return button;
    },
  );
  return make(
    "div", { class: "fits", role: "group", "aria-label": "Does it fit?" },
    words ? make("span", { "aria-hidden": "true" }, "Does it fit?") : null, buttons,
  );
}

export function waiting(many) {
  const one = () => make("li", { class: "card" }, make("div", { class: "look" }), make("div", { class: "line" }));
  return make("ul", { class: "grid wait", "aria-hidden": "true" }, Array.from({ length: many }, one));
}
