// The drawer of the index: what is in it, how it is judged, what was left out.

import { ask, send } from "./api.js";
import { button, facts, fill, find, make, note, press, say } from "./build.js";
import { chooser } from "./folders.js";
import { count, percent, risk as written } from "./words.js";

const EVERY = 1000; // milliseconds between looks at a running job
let following = 0;
let seen = 0; // files that the running job had read at the last look

export async function open() {
  const panel = find("about");
  const body = make("div");
  const close = press("close", "Close (Escape)", () => panel.close());
  fill(panel, make("header", {}, make("h2", { id: "about-name" }, "This index"), close), body);
  panel.showModal();
  try {
    const [index, calibration] = await Promise.all([ask("api/index"), ask("api/calibration")]);
    fill(body, contents(index), judged(calibration), skipped(index), find("keys").content.cloneNode(true));
    follow();
  } catch (error) {
    fill(body, note(error.message));
  }
}

function contents(index) {
  return make(
    "section",
    {},
    facts([
      ["Pictures", (index.images - index.moments).toLocaleString("en-GB")],
      ["Videos", index.videos && `${index.videos.toLocaleString("en-GB")} (${count(index.moments, "moment", "moments")})`],
      ["Texts", index.texts ? index.texts.toLocaleString("en-GB") : null],
      ["Model", index.model],
      ["Fingerprint", index.fingerprint],
      ["Search", index.exact ? "exact" : `approximate (${index.engine})`],
    ]),
    make("h3", {}, "Folders"),
    make("ul", { class: "folders" }, index.folders.map((folder) => make(
      "li", {}, make("code", {}, folder), make(
        "button",
        { type: "button", class: "plain", onclick: () => scan(folder), "aria-label": `Scan ${folder} again` },
        "Scan again",
      ),
    ))),
    make("div", { class: "job-place", role: "status" }),
    index.may_add ? make("details", {}, make("summary", {}, "Add a folder"), chooser(follow)) : null,
  );
}

function judged(told) {
  const head = make("h3", {}, "Trust");
  if (!told.fitted) return make("section", {}, head, note(told.why));
  const doubts = told.doubts.length
    ? make("ul", { class: "doubts" }, told.doubts.map((one) => make("li", {}, one)))
    : note("Nothing speaks against using it here.");
  const rows = told.risks.map((one) => make(
    "tr", {}, make("td", {}, written(one.risk)),
    make("td", {}, one.promised ? percent(one.coverage) : "not possible"),
  ));
  return make(
    "section",
    {},
    head,
    note(told.why),
    doubts,
    make("details", {}, make("summary", {}, "What each risk costs"), make(
      "table",
      {},
      make("thead", {}, make(
        "tr", {}, make("th", { scope: "col" }, "At most wrong"),
        make("th", { scope: "col" }, "Questions answered"),
      )),
      make("tbody", {}, rows),
    )),
  );
}

function skipped(index) {
  if (!index.skipped.length) return null;
  return make(
    "details",
    {},
    make("summary", {}, `${count(index.skipped_total, "file", "files")} left out`),
    make("ul", { class: "skipped" }, index.skipped.map((one) => make(
      "li", {}, make("code", {}, one.path), make("span", {}, one.why),
    ))),
  );
}

async function scan(folder) {
  try {
    await send("api/jobs", { folder });
    follow();
  } catch (error) {
    say(error.message);
  }
}

// Watch the newest job while it runs; the line at the top of the page moves with it.
export async function follow(ended = null) {
  clearTimeout(following);
  const jobs = await ask("api/jobs").catch(() => null);
  const job = jobs?.jobs[0];
  const running = job?.state === "running";
  find("pulse").dataset.is = running ? "working" : "";
  for (const place of job ? document.querySelectorAll(".job-place") : []) fill(place, running ? moving(job) : done(job));
  if (running) {
    find("index-line").textContent = `Indexing ${job.done} of ${job.total || "…"}`;
    following = setTimeout(() => follow(job.id), EVERY);
    // what is in already can be searched
    if (job.done !== seen) document.dispatchEvent(new CustomEvent("indexed", { detail: job.id }));
    seen = job.done;
  } else if (ended !== null && job?.id === ended) {
    document.dispatchEvent(new CustomEvent("indexed"));
  }
}

function moving(job) {
  const stop = () => send(`api/jobs/${job.id}/cancel`, {}).then(() => follow(job.id), (error) => say(error.message));
  return make(
    "div",
    { class: "job" },
    make("div", {}, make("span", {}, `${job.done} of ${job.total || "…"} files`), button("plain", stop, "Stop")),
    make("p", {}, job.says),
    make("progress", { max: job.total || 1, value: job.done, "aria-label": "Indexing" }),
  );
}

function done(job) {
  return make("div", { class: "job" }, make("p", {}, job.says));
}
