// Pictures in rows: what they show, how far to trust them, whether they fit.

import { send, thumbnail } from "./api.js";
import { icon, make, meter, say } from "./build.js";
import { name, percent, span } from "./words.js";

const said = new Map(); // what was said of an item for the question on the page

export const forget = () => said.clear();

export function grid(hits, { open, question, wall = false, label = "Answers" }) {
  const shape = wall ? "grid wall" : hits.length < 4 ? "grid few" : "grid";
  const list = make("ul", { class: shape, "aria-label": label });
  hits.forEach((hit, place) => list.append(card(hit, place, { open, question, wall })));
  list.addEventListener("keydown", (event) => walk(event, list));
  return list;
}

function card(hit, place, { open, question, wall }) {
  const look = make(
    "button",
    {
      type: "button",
      class: "look",
      "data-id": hit.id,
      tabindex: place === 0 ? "0" : "-1",
      "aria-label": described(hit),
      onclick: () => open(hit),
    },
    face(hit, wall ? 256 : 512),
    hit.kind === "video" ? make("span", { class: "when" }, span(hit)) : null,
  );
  look.addEventListener("focus", () => onlyStop(look));
  if (wall) return make("li", { class: "card" }, look);
  return make(
    "li",
    { class: "card" },
    look,
    trust(hit),
    make(
      "div",
      { class: "below" },
      make("span", { class: "name", title: hit.path }, name(hit.path)),
      question ? fits(hit.id, question) : null,
    ),
  );
}

function described(hit) {
  const judged = hit.p_relevant === null || hit.p_relevant === undefined
    ? "" : `, fits with ${percent(hit.p_relevant)}`;
  const when = hit.kind === "video" ? ` ${span(hit)}` : "";
  const what = hit.kind === "text" ? hit.text : `${name(hit.path)}${when}`;
  return `${hit.rank ? `${hit.rank}. ` : ""}${what}${judged}`;
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
  const sure = hit.p_relevant;
  if (sure === null || sure === undefined) {
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
  const box = make("div", { class: "fits", role: "group", "aria-label": "Does it fit?" });
  const button = (says, good, text) => make(
    "button",
    {
      type: "button",
      "data-says": says,
      title: text,
      "aria-label": words ? null : text,
      onclick: () => tell(good),
    },
    icon(says),
    words ? text : null,
  );
  const yes = button("yes", true, words ? "Yes" : "It fits");
  const no = button("no", false, words ? "No" : "It does not fit");
  const show = () => {
    yes.setAttribute("aria-pressed", String(said.get(id) === true));
    no.setAttribute("aria-pressed", String(said.get(id) === false));
  };
  const tell = async (good) => {
    const before = said.get(id);
    const now = before === good ? null : good;
    try {
      await send("api/feedback", { query: question, item_id: id, good: now });
    } catch (error) {
      say(error.message);
      return;
    }
    remember(id, now);
    const undo = { name: "Undo", run: () => tell(good) };
    if (now === null) say("Taken back.");
    else say(now ? "Noted: it fits." : "Noted: it does not fit.", undo);
  };
  const remember = (which, now) => {
    if (now === null) said.delete(which);
    else said.set(which, now);
    document.dispatchEvent(new CustomEvent("told", { detail: which }));
  };
  document.addEventListener("told", (event) => event.detail === id && show());
  show();
  if (words) box.append(make("span", { "aria-hidden": "true" }, "Does it fit?"));
  box.append(yes, no);
  return box;
}

// One picture of a grid is a stop of the Tab key; the arrows walk between them.
function onlyStop(look) {
  for (const other of look.closest(".grid").querySelectorAll(".look")) other.tabIndex = -1;
  look.tabIndex = 0;
}

function walk(event, list) {
  const looks = [...list.querySelectorAll(".look")];
  const here = looks.indexOf(event.target.closest(".look"));
  if (here < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
  const top = looks[0].offsetTop;
  const wide = looks.filter((one) => one.offsetTop === top).length;
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: wide, ArrowUp: -wide };
  let next = here + (steps[event.key] ?? 0);
  if (event.key === "Home") next = 0;
  if (event.key === "End") next = looks.length - 1;
  if (next === here || !looks[next]) return;
  event.preventDefault();
  looks[next].focus();
}

export function waiting(many) {
  const one = () => make(
    "li", { class: "card" }, make("div", { class: "look" }), make("div", { class: "line" }),
  );
  return make(
    "ul", { class: "grid wait", "aria-hidden": "true" }, Array.from({ length: many }, one),
  );
}
