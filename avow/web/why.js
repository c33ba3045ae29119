// The drawer of one picture: what of it spoke to which word, and what is like it.

import { media, original, parameters, timely } from "./api.js";
import { button, facts, fill, find, make, note, press, pressed, say, title, wide } from "./build.js";
import { face, fits, trust } from "./grid.js";
import { grid } from "./list.js";
import { box } from "./picked.js";
import { player, strip } from "./player.js";
import { bytes, clock, count, name, span, stated } from "./words.js";

let turn = 0; // answers for a picture that is no longer shown are dropped

export async function show(hit, around) {
  const mine = ++turn;
  const panel = find("why");
  const parts = Object.fromEntries(["alike", "beside", "words", "facts", "similar"].map((one) => [one, make("div")]));
  fill(panel, bar(hit, around), picture(hit, around), make("div", { class: "told" }, Object.values(parts)));
  if (!panel.open) panel.showModal();
  // the button that was pressed is made anew, and keys must go on reaching the drawer
  if (!panel.contains(document.activeElement)) panel.focus();
  panel.scrollTop = 0;
  const current = () => mine === turn;
  if (hit.alike?.length) {
    fill(parts.alike, title("The same picture"), grid(hit.alike, { open: around.jump, wall: true, label: "Pictures that look the same" }));
  }
  await Promise.all([
    explain(hit, around, parts.words, current),
    tellFacts(hit, parts.facts, current),
    strip(hit, around, parts.beside, current),
    tellSimilar(hit, around, parts.similar, current),
  ]);
}

function bar(hit, { step, close }) {
  return make(
    "header",
    {},
    make("h2", { id: "why-name", title: hit.path }, name(hit.path) || "A text"),
    press("back", "The picture before (left arrow)", () => step(-1)),
    press("on", "The next picture (right arrow)", () => step(1)),
    press("close", "Close (Escape)", close),
  );
}

function picture(hit, around) {
  const playing = hit.kind === "video" && hit.end !== undefined;
  const shape = playing ? player(hit) : face(hit, 1536);
  const heated = make("div", { class: "heated", id: "heated" }, shape);
  const shown = heated.querySelector("img");
  if (shown) shown.alt = name(hit.path);
  if (hit.width && hit.height) fit(heated, hit.width / hit.height);
  const figure = make("figure", { class: "pictured" }, heated);
  swipe(figure, around.step);
  return make(
    "div",
    { class: "stage" },
    figure,
    hit.p_relevant === undefined ? null : trust(hit),
    make(
      "div",
      { class: "below-picture", id: "below-picture" },
      around.question ? fits(hit.id, around.question, true) : null,
    ),
    hit.kind === "text" ? null : tools(hit, around),
  );
}

function tools(hit, { openLike }) {
  const address = hit.kind === "video" ? media(hit.id) : original(hit.id);
  const link = (words, more) => make("a", { class: "plain", href: address, ...more }, words);
  return make(
    "div",
    { class: "below-picture", id: "tools" },
    link("Open original", { target: "_blank" }),
    link("Download", { download: name(hit.path) || true }),
    button("plain", () => copy(hit.path), "Copy path"),
    button("plain", () => openLike(hit), "More like this"),
    box(hit, "Pick"),
  );
}

// Without a secure connection there is no clipboard for scripts, but there is for selections.
async function copy(path) {
  try {
    await navigator.clipboard.writeText(path);
  } catch {
    const field = make("textarea", { class: "unseen" });
    field.value = path;
    find("why").append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  say(`Copied: ${path}`);
}

function swipe(figure, step) {
  let from = null;
  figure.addEventListener("touchstart", ({ touches }) => (from = touches.length > 1 ? null : touches[0]), { passive: true });
  figure.addEventListener("touchend", ({ changedTouches: [to] }) => {
    const [x, y] = from ? [to.clientX - from.clientX, to.clientY - from.clientY] : [0, 0];
    if (Math.abs(x) > 40 && Math.abs(x) > 2 * Math.abs(y)) step(x < 0 ? 1 : -1);
  });
}

// The place has the picture's own shape, so that the heat lies exactly over it.
const fit = (heated, ratio) => heated.style.setProperty("--ratio", String(ratio));

const refusal = (place, words) => (sentence) => fill(place, title(words), note(sentence));

async function explain(hit, { text }, place, current) {
  if (!text || hit.kind === "text") return;
  const told = await timely(`api/items/${hit.id}/explain?${parameters({ text })}`, current, refusal(place, "Why"));
  if (!told) return;
  // over a film that plays, the heat of one frame would lie over all others
  const still = !find("heated").querySelector("video");
  const heat = told.cells && still ? overlay(hit, text) : null;
  fill(place, title(still ? "Why this picture" : "Why this moment"), list(told, heat), note(told.note ?? (still ? READING : WORDS)));
}

const WORDS = "The longer the line under a word, the more the match rests on it; a red one speaks against it.";
const READING = `${WORDS} Warm places of the picture carry the match; press a word for its own.`;

function overlay(hit, text) {
  const address = (words) => `api/items/${hit.id}/explain/heat?${parameters({ text: words })}`;
  const heat = make("img", { class: "heat", src: address(text), alt: "" });
  find("heated").append(heat);
  const toggle = pressed({ class: "switch", id: "heat-switch", "aria-pressed": "true" }, "Heat map");
  const set = (on) => {
    toggle.setAttribute("aria-pressed", String(on));
    heat.toggleAttribute("data-off", !on);
  };
  toggle.addEventListener("click", () => set(toggle.getAttribute("aria-pressed") !== "true"));
  find("below-picture").append(toggle);
  return (word) => {
    heat.src = address(word ?? text);
    set(true);
  };
}

function list(told, heat) {
  const most = Math.max(...told.words.map((one) => Math.abs(one.weight)), 1e-9);
  const all = make("ul", { class: "words", "aria-label": "Words" });
  told.words.forEach((one) => {
    if (one.weight === null) return all.append(make("li", { class: "idle" }, one.word));
    const line = wide(make("i", { "data-against": one.weight < 0 }), Math.abs(one.weight) / most);
    const press = () => {
      const on = word.getAttribute("aria-pressed") !== "true";
      for (const other of all.querySelectorAll(".word")) other.setAttribute("aria-pressed", String(on && other === word));
      heat?.(on ? one.word : null);
    };
    const word = button("word", press, one.word, line);
    word.setAttribute("aria-label", `${one.word}: ${one.weight < 0 ? "against" : "for"}, weight ${one.weight.toFixed(3)}`);
    word.setAttribute("aria-pressed", "false");
    all.append(make("li", {}, word));
  });
  return all;
}

async function tellFacts(hit, place, current) {
  const item = await timely(`api/items/${hit.id}`, current, refusal(place, "File"));
  if (!item) return;
  if (item.width && item.height) fit(find("heated"), item.width / item.height);
  if (!hit.path) {
    find("why-name").textContent = name(item.path);
    if (item.kind === "video") fill("heated", player(item));
  }
  const pairs = [
    ["File", item.path],
    ["Moment", item.kind === "video" && `${span({ ...item, ...hit })} of ${clock(item.duration)}`],
    ["Size", item.width ? `${item.width} × ${item.height}, ${bytes(item.size)}` : bytes(item.size)],
    ["Taken", item.taken?.replace("T", " ") ?? "unknown"],
    ["Place", item.latitude !== null && `${item.latitude}, ${item.longitude}`],
    ["Tags", item.tags?.join(", ")],
    ["Written in it", item.kind !== "text" && item.text],
    ["Similarity", hit.similarity?.toFixed(4)],
    ["Fits with", stated(hit.p_relevant)],
  ];
  fill(place, title("File"), facts(pairs));
}

async function tellSimilar(hit, { jump }, place, current) {
  const found = await timely(`api/items/${hit.id}/similar?k=8`, current);
  const others = found ? [...found.hits, ...found.near_misses].filter((one) => one.id !== hit.id) : [];
  if (!others.length) return;
  fill(
    place,
    title("Like this one"),
    grid(others.slice(0, 8), { open: jump, wall: true, label: count(others.length, "similar picture", "similar pictures") }),
  );
}

