// The page: reads the question from the address, asks, and shows what comes back.

import * as about from "./about.js";
import { FRESH, asksSomething, read, shownItem, write } from "./address.js";
import { Offline, Refused, ask, parameters, search, thumbnail } from "./api.js";
import { button, fill, find, fold, icon, make, on, say } from "./build.js";
import * as filters from "./filters.js";
import { chooser } from "./folders.js";
import { forget, grouped, waiting } from "./grid.js";
import { endless, grid } from "./list.js";
import * as picked from "./picked.js";
import * as risk from "./risk.js";
import * as ticks from "./ticks.js";
import { banner, state, tokenForm } from "./verdict.js";
import { show as showWhy } from "./why.js";
import { NOUNS, count, percent } from "./words.js";

const body = document.body.dataset;
const drawer = find("why");
const UNLIKELY = 0.1; // answers less likely than this wait under a fold
const pictures = new Map(); // what was dropped, by the name it has in the address
let query = { ...FRESH };
let answered = null; // the address of the question whose answer is on the page
let shown = []; // hits in the order in which the page shows them
let welcomes = 0; // how often the first page was asked for
let further = null; // the list behind them, of any length
let pending = null;
let index = null;
let question = null; // the query of the last result, as the server understood it

// --- asking

function go(next, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", write(next));
  return arrive();
}

async function arrive() {
  const next = read();
  // only the drawer opened or closed: what is shown stays
  const settled = ["told", "home"].includes(body.state);
  const same = settled && write(next) === answered;
  query = next;
  fillForm();
  if (!same) await answer();
  const item = shownItem();
  if (item === null) drawer.close();
  else open(shown.find((hit) => hit.id === item) ?? further?.known(item) ?? { id: item, path: "" }, false);
}

async function answer() {
  pending?.abort();
  const mine = (pending = new AbortController());
  ticks.clear();
  picked.clear(query.text);
  further = null;
  fill("further");
  answered = write(query);
  forget([query.text, query.without, query.like, query.picture].join("\n"));
  if (!asksSomething(query)) return welcome();
  const picture = dropped();
  if (query.picture && !picture) return lost();
  setState("asking");
  fill("verdict");
  fill("shown", waiting(Math.min(query.k, 12)));
  try {
    const result = await search(query, picture, mine.signal);
    if (mine === pending) tell(result, picture);
  } catch (error) {
    if (mine === pending && error.name !== "AbortError") failed(error);
  }
}

function tell(result, picture) {
  setState("told");
  online(true);
  document.title = query.text ? `${query.text} – Avow` : "Avow";
  question = result.query;
  const [hits, misses] = [grouped(result.hits), grouped(result.near_misses)];
  shown = [...hits, ...misses];
  const likely = hits.filter((hit) => !(hit.p_relevant < UNLIKELY));
  const rest = likely.length ? hits.filter((hit) => hit.p_relevant < UNLIKELY) : [];
  const first = likely.length ? likely : hits;
  const noun = (many) => count(many, ...nouns(query.kind));
  fill("verdict", banner(result, noun, change));
  const written = result.written ?? [];
  shown.push(...written);
  fill(
    "shown",
    first.length ? grid(first, { open, question }) : null,
    written.length ? [section("With these words written in them"), grid(written, { open })] : null,
    rest.length ? folded(`${noun(rest.length)} more, each less than ${percent(UNLIKELY)} likely to fit`, rest) : null,
    misses.length ? folded(`Show the nearest ${noun(misses.length)} all the same`, misses) : null,
  );
  const had = result.hits.length;
  const left = result.searched - had;
  if (had && left > 0 && !/\bp\s*>=/i.test(query.where)) offerMore(had, left, picture);
}

// an index without videos has no moments to speak of
const nouns = (kind) => NOUNS[kind === "image" && !index?.moments ? "picture" : kind];

const section = (words) => make("h2", { class: "section" }, words);

function offerMore(had, left, picture) {
  const words = "Further answers, best first";
  const show = () => {
    further = endless({
      total: left, open, question, label: words,
      load: async (offset, k) => (await search({ ...query, k, offset: had + offset }, picture)).hits,
    });
    fill("further", section(words), further);
    further.focus({ preventScroll: true }); // a long list would be scrolled to its middle
  };
  fill("further", button("act more", show, `Show more: ${count(left, "other", "others")}, best first`));
}

// a button goes with the line or verdict it stands in, so the focus moves to what follows
function searchAgain() {
  answer();
  find("answers").focus();
}

function change(part) {
  go({ ...query, ...part });
  find("answers").focus();
}

const folded = (words, misses) => fold("misses", words, grid(misses, { open, question, label: "Unlikely answers" }));

// --- states without answers

async function welcome() {
  const turn = ++welcomes;
  setState("home");
  document.title = "Avow";
  fill("verdict");
  shown = [];
  try {
    const page = (offset, limit) => ask(`api/items?${parameters({ kind: "image", offset, limit })}`);
    const first = await page(0, 100);
    online(true);
    if (body.state !== "home" || turn !== welcomes) return;
    if (!first.total) return fill("shown", emptyIndex());
    further = endless({
      total: first.total, known: first.items, open, wall: true, label: "Your pictures, newest first",
      load: async (offset, limit) => (await page(offset, limit)).items,
    });
    fill("shown", section(`Your ${count(first.total, ...nouns("image"))}`), further);
  } catch (error) {
    failed(error);
  }
}

function emptyIndex() {
  const box = state("empty", "There are no pictures here yet", []);
  if (index?.may_add) box.append(chooser(about.follow), about.jobPlace());
  else box.append(make("p", {}, "Put some in with ", make("code", {}, "avow index FOLDER"), "."));
  return box;
}

function instead(box) {
  setState("failed");
  fill("verdict");
  fill("shown", box);
}

const lost = () => instead(state("picture", "The picture is gone", [
  "The page was loaded anew, and a dropped picture is not kept. Drop it once more.",
]));

function failed(error) {
  const again = { name: "Ask again", run: answer };
  if (error instanceof Offline) {
    online(false);
    instead(state("offline", "The server does not answer", [
      "Is “avow serve” still running? This page asks again by itself.",
    ], again));
    setTimeout(() => body.state === "failed" && retry(), 4000);
  } else if (error.status === 401) {
    instead(tokenForm());
  } else {
    const busy = error.status === 503 || error.status === 504;
    const title = busy ? "Not just now" : "This question cannot be asked";
    instead(state("mistake", title, [error.message], busy ? again : null));
    if (!(error instanceof Refused)) throw error;
  }
}

async function retry() {
  const alive = await ask("api/health").catch(() => null);
  if (!alive) return failed(new Offline());
  await begin();
}

function setState(is) {
  body.state = is;
  find("shown").setAttribute("aria-busy", String(is === "asking"));
}

function online(is) {
  const pulse = find("pulse").dataset;
  if (!is || pulse.is === "offline") pulse.is = is ? "" : "offline";
}

// --- the form

function fillForm() {
  for (const key of ["text", "without", "where", "k", "kind"]) filters.set(key, String(query[key]));
  find("more").open ||= Boolean(query.without || query.where || query.kind !== "image");
  filters.read();
  risk.set(query.risk);
  const address = query.like ? thumbnail(query.like, 128) : pictureAddress();
  const clip = isClip(dropped()) ? dropped().name : "";
  find("chosen").hidden = !address && !clip;
  fill("chosen-clip", clip); // it may be in a container that the browser cannot play
  const picture = find("chosen-picture");
  picture.hidden = !address;
  if (address) picture.src = address;
  else picture.removeAttribute("src");
}

let address = null;

function pictureAddress() {
  if (address) URL.revokeObjectURL(address);
  address = dropped() && !isClip(dropped()) ? URL.createObjectURL(dropped()) : null;
  return address;
}

function submit(event) {
  event?.preventDefault();
  // a small screen needs the room of its keyboard for the answers
  if (event && matchMedia("(max-width: 40rem)").matches) document.activeElement?.blur();
  const said = Object.fromEntries(
    ["text", "without", "where", "kind"].map((key) => [key, find(key).value.trim()]),
  );
  const next = { ...query, ...said, k: +find("k").value, risk: risk.chosen() };
  next.rewrite ||= next.text !== query.text; // put back was only what these words said
  if (write(next) !== location.pathname + location.search) go(next);
  else answer();
}

const dropped = () => pictures.get(query.picture);
// browsers know no type for some containers, and these have names that say it
const isClip = (file) => /^video\//.test(file?.type) || /\.(mkv|avi|m4v|mov)$/i.test(file?.name);
const canAsk = (file) => isClip(file) || /^image\//.test(file?.type);

function takePicture(file) {
  if (!canAsk(file)) return say("That is no picture or video. Take a JPEG, a PNG or an MP4.");
  const most = index?.limits.upload_bytes ?? Infinity;
  const what = isClip(file) ? "clip" : "picture";
  if (file.size > most) return say(`The ${what} is larger than ${Math.round(most / 1e6)} MB.`);
  const key = `p${pictures.size + 1}`;
  pictures.set(key, file);
  askWith(key);
}

const askWith = (picture) => go({ ...query, text: find("text").value.trim(), picture, like: null });

function removePicture() {
  askWith(null);
  find("text").focus();
}

// --- the drawer

function open(hit, push = true) {
  if (push) {
    const move = drawer.open ? "replaceState" : "pushState";
    history[move]({ drawer: true }, "", write(query, hit.id));
  }
  const step = async (by) => {
    const at = shown.findIndex((one) => one.id === hit.id);
    const place = at < 0 ? shown.length + (further?.find(hit.id) ?? -1) : at;
    if (place < 0) return;
    const next = shown[place + by] ?? await further?.get(place + by - shown.length);
    if (next) open(next);
  };
  const told = body.state === "told" ? question : null;
  showWhy(hit, {
    question: told,
    text: told?.text, // without what is left out
    step,
    close: () => drawer.close(),
    jump: (other) => open({ ...other, p_relevant: undefined }),
    openLike: (one) => go({ ...FRESH, like: one.id, k: query.k, risk: query.risk }),
  });
  drawer.onkeydown = (event) => {
    if (event.target.closest(".grid")) return; // its own keys
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by) step(by);
    if (event.key === "x") picked.toggle(hit);
  };
}

function closed() {
  const item = shownItem();
  if (item === null) return;
  if (history.state?.drawer) history.back();
  else history.replaceState(null, "", write(query));
  document.querySelector(`.look[data-id="${item}"]`)?.focus();
}

// --- the whole

async function loadIndex() {
  index = await ask("api/index");
  const counts = [count(index.images - index.moments, "picture", "pictures")];
  if (index.videos) counts.push(count(index.videos, "video", "videos"));
  fill("index-line", counts.join(", "));
  await Promise.all([risk.load(), about.follow()]);
}

function listen() {
  on("ask", "submit", submit);
  find("choose").append(icon("picture"));
  on("choose", "click", () => find("file").click());
  on("file", "change", (event) => {
    takePicture(event.target.files[0]);
    event.target.value = "";
  });
  on("chosen-remove", "click", removePicture);
  on("risk", "input", risk.tell);
  const changed = () => asksSomething(query) && submit();
  for (const key of ["k", "kind", "risk"]) on(key, "change", changed);
  filters.listen(changed);
  on("about-open", "click", about.open);
  on("home", "click", (event) => {
    event.preventDefault();
    go({ ...FRESH });
  });
  on("why", "close", closed);
  for (const panel of ["why", "about"]) {
    on(panel, "click", (event) => {
      if (event.target.id === panel) event.target.close();
    });
  }
  addEventListener("popstate", arrive);
  addEventListener("keydown", (event) => {
    const writing = event.target.closest("input:not([type=range]), select, textarea");
    if (event.key !== "/" || writing || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    find("text").focus();
    find("text").select();
  });
  addEventListener("paste", (event) => {
    const file = [...(event.clipboardData?.files ?? [])].find(canAsk);
    if (file) takePicture(file);
  });
  listenForDrops();
  document.addEventListener("told", () => question?.text && ticks.learn(searchAgain));
  document.addEventListener("indexed", async () => {
    const before = index?.images;
    await loadIndex();
    if (index.images === before) return;
    if (body.state !== "home") ticks.grown(index.images - before, searchAgain);
    else if (!before || (!further?.contains(document.activeElement) && scrollY < innerHeight && !drawer.open)) welcome();
  });
}

function listenForDrops() {
  for (const kind of ["dragover", "drop"]) {
    addEventListener(kind, (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      find("drop").hidden = kind === "drop";
      if (kind === "drop") takePicture(event.dataTransfer.files[0]);
    });
  }
  addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) find("drop").hidden = true;
  });
}

async function begin() {
  try {
    await loadIndex();
  } catch (error) {
    if (error instanceof Offline || error.status === 401) return failed(error);
  }
  const early = find("text").value; // typed while the index was asked for
  const arrived = arrive();
  if (early && document.activeElement === find("text")) find("text").value = early;
  await arrived;
}

listen();
await begin();
