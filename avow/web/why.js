// The drawer of one picture: what of it spoke to which word, and what is like it.

import { ask, parameters } from "./api.js";
import { fill, find, icon, make } from "./build.js";
import { face, fits, grid, trust } from "./grid.js";
import { player, strip } from "./player.js";
import { bytes, clock, count, name, percent, span } from "./words.js";

let turn = 0; // answers for a picture that is no longer shown are dropped

export async function show(hit, around) {
  const mine = ++turn;
  const panel = find("why");
  const parts = Object.fromEntries(["beside", "words", "facts", "similar"].map((one) => [one, make("div")]));
  fill(panel, bar(hit, around), picture(hit, around), Object.values(parts));
  if (!panel.open) panel.showModal();
  panel.scrollTop = 0;
  const current = () => mine === turn;
  await Promise.all([
    explain(hit, around, parts.words, current),
    tellFacts(hit, parts.facts, current),
    strip(hit, around, parts.beside, current),
    tellSimilar(hit, around, parts.similar, current),
  ]);
}

function bar(hit, { step, close }) {
  const move = (by, shape, words) => make(
    "button",
    { type: "button", class: "icon", "aria-label": words, title: words, onclick: () => step(by) },
    icon(shape),
  );
  return make(
    "header",
    {},
    make("h2", { id: "why-name", title: hit.path }, name(hit.path) || "A text"),
    move(-1, "back", "The picture before (left arrow)"),
    move(1, "on", "The next picture (right arrow)"),
    make(
      "button",
      { type: "button", class: "icon", "aria-label": "Close (Escape)", onclick: close },
      icon("close"),
    ),
  );
}

function picture(hit, { question }) {
  const playing = hit.kind === "video" && hit.end !== undefined;
  const shape = playing ? player(hit) : face(hit, 1024);
  const heated = make("div", { class: "heated", id: "heated" }, shape);
  const shown = heated.querySelector("img");
  if (shown) shown.alt = name(hit.path);
  if (hit.width && hit.height) fit(heated, hit.width / hit.height);
  return make(
    "div",
    {},
    make("figure", { class: "pictured" }, heated),
    hit.p_relevant === undefined ? null : trust(hit),
    make(
      "div",
      { class: "below-picture", id: "below-picture" },
      question ? fits(hit.id, question, true) : null,
    ),
  );
}

// The place has the picture's own shape, so that the heat lies exactly over it.
function fit(heated, ratio) {
  heated.style.aspectRatio = String(ratio);
  heated.style.width = `min(100%, ${(58 * ratio).toFixed(1)}vh)`;
}

async function explain(hit, { text }, place, current) {
  if (!text || hit.kind === "text") return;
  let told;
  try {
    told = await ask(`api/items/${hit.id}/explain?${parameters({ text })}`);
  } catch (error) {
    if (current()) fill(place, make("h3", {}, "Why"), note(error.message));
    return;
  }
  if (!current()) return;
  // over a film that plays, the heat of one frame would lie over all others
  const still = !find("heated").querySelector("video");
  const heat = told.cells && still ? overlay(hit, text) : null;
  const title = still ? "Why this picture" : "Why this moment";
  fill(place, make("h3", {}, title), list(told, heat), note(told.note ?? (still ? READING : WORDS)));
}

const WORDS = "The longer the line under a word, the more the match of the key frame rests on it; "
  + "a red one speaks against it.";
const READING = "The longer the line under a word, the more the match rests on it; a red one "
  + "speaks against it. Warm places of the picture carry the match; press a word for its own.";

const note = (sentence) => make("p", { class: "note" }, sentence);

function overlay(hit, text) {
  const address = (words) => `api/items/${hit.id}/explain/heat?${parameters({ text: words })}`;
  const heat = make("img", { class: "heat", src: address(text), alt: "" });
  find("heated").append(heat);
  const toggle = make(
    "button",
    { type: "button", class: "switch", id: "heat-switch", "aria-pressed": "true" },
    "Heat map",
  );
  const set = (on) => {
    toggle.setAttribute("aria-pressed", String(on));
    heat.toggleAttribute("data-off", !on);
  };
  toggle.addEventListener("click", () => set(toggle.getAttribute("aria-pressed") !== "true"));
  find("below-picture").append(toggle);
  return {
    of(word) {
      heat.src = address(word ?? text);
      set(true);
    },
  };
}

function list(told, heat) {
  const most = Math.max(...told.words.map((one) => Math.abs(one.weight)), 1e-9);
  const all = make("ul", { class: "words", "aria-label": "Words" });
  told.words.forEach((one) => {
    const line = make("i", { "data-against": one.weight < 0 });
    line.style.width = `${Math.round((Math.abs(one.weight) / most) * 100)}%`;
    const press = () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      for (const other of all.querySelectorAll(".word")) other.setAttribute("aria-pressed", "false");
      button.setAttribute("aria-pressed", String(on));
      heat?.of(on ? one.word : null);
    };
    const button = make(
      "button",
      {
        type: "button",
        class: "word",
        "aria-pressed": "false",
        "aria-label": `${one.word}: ${one.weight < 0 ? "against" : "for"}, weight ${one.weight.toFixed(3)}`,
        onclick: press,
      },
      one.word,
      line,
    );
    all.append(make("li", {}, button));
  });
  return all;
}

async function tellFacts(hit, place, current) {
  let item;
  try {
    item = await ask(`api/items/${hit.id}`);
  } catch (error) {
    if (current()) fill(place, make("h3", {}, "File"), note(error.message));
    return;
  }
  if (!current()) return;
  if (item.width && item.height) fit(find("heated"), item.width / item.height);
  if (!hit.path) {
    find("why-name").textContent = name(item.path);
    if (item.kind === "video") fill(find("heated"), player(item));
  }
  const facts = [
    ["File", item.path],
    ["Moment", item.kind === "video" && `${span({ ...item, ...hit })} of ${clock(item.duration)}`],
    ["Size", item.width ? `${item.width} × ${item.height}, ${bytes(item.size)}` : bytes(item.size)],
    ["Taken", item.taken],
    ["Tags", item.tags?.join(", ")],
    ["Similarity", hit.similarity?.toFixed(4)],
    ["Fits with", hit.p_relevant === null || hit.p_relevant === undefined
      ? null : percent(hit.p_relevant)],
  ].filter(([, value]) => value);
  fill(
    place,
    make("h3", {}, "File"),
    make("dl", { class: "facts" }, facts.map(([key, value]) => [
      make("dt", {}, key), make("dd", {}, value),
    ])),
  );
}

async function tellSimilar(hit, { openLike, jump }, place, current) {
  let found;
  try {
    found = await ask(`api/items/${hit.id}/similar?k=8`);
  } catch {
    return;
  }
  const others = [...found.hits, ...found.near_misses].filter((one) => one.id !== hit.id);
  if (!current() || !others.length) return;
  fill(
    place,
    make("h3", {}, "Like this one"),
    grid(others.slice(0, 8), { open: jump, wall: true, label: count(others.length, "similar picture", "similar pictures") }),
    make("p", { class: "below-picture" }, make(
      "button", { type: "button", class: "plain", onclick: () => openLike(hit) },
      "Search with this picture",
    )),
  );
}

