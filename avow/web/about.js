// The drawer of the index: what is in it, how it is judged, what was left out.

import { ask, send } from "./api.js";
import { attempt, button, facts, fill, find, fold, make, note, press, pressed, title } from "./build.js";
import { chooser, index as scan } from "./folders.js";
import { count, grouped, percent, risks as written } from "./words.js";

const EVERY = 1000; // milliseconds between looks at a running job
let following = 0;
let watched = null; // a job that was not seen to end
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

export const jobPlace = () => make("div", { class: "job-place", role: "status" });

function contents(index) {
  return make(
    "section",
    {},
    facts([
      ["Pictures", grouped(index.images - index.moments)],
      ["Videos", index.videos && `${grouped(index.videos)} (${count(index.moments, "moment", "moments")})`],
      ["Texts", index.texts && grouped(index.texts)],
      ["Model", `${index.model} (${index.model_fingerprint})`],
      ["Search", index.exact ? "exact" : `approximate (${index.engine})`],
    ]),
    title("Folders"),
    make("ul", { class: "folders" }, index.folders.map((folder) => make(
      "li", {}, make("code", {}, folder), pressed(
        { class: "plain", onclick: () => scan(folder, follow), "aria-label": `Scan ${folder} again` }, "Scan again",
      ),
    ))),
    jobPlace(),
    index.may_add ? fold(null, "Add a folder", chooser(follow)) : null,
  );
}

function judged(told) {
  const head = title("Trust");
  if (!told.fitted) return make("section", {}, head, note(told.why));
  const doubts = told.doubts.length
    ? make("ul", { class: "doubts" }, told.doubts.map((one) => make("li", {}, one)))
    : note("Nothing speaks against using it here.");
  const heads = told.risks[0].kinds.map((one) => `Of ${one.asked} answered`);
  const rows = told.risks.map((one) => make(
    "tr", {}, make("td", {}, written(one.kinds)),
    one.kinds.map((kind) => make("td", {}, kind.promised ? percent(kind.coverage) : "not possible")),
  ));
  return make(
    "section",
    {},
    head,
    note(told.why),
    doubts,
    fold(null, "What each risk costs", make(
      "table",
      {},
      make("thead", {}, make("tr", {}, ["At most wrong", ...heads].map((one) => make("th", { scope: "col" }, one)))),
      make("tbody", {}, rows),
    )),
  );
}

function skipped(index) {
  if (!index.skipped.length) return null;
  return fold(
    null, `${count(index.skipped_total, "file", "files")} left out`,
    make("ul", { class: "skipped" }, index.skipped.map((one) => make(
      "li", {}, make("code", {}, one.path), make("span", {}, one.why),
    ))),
  );
}

// Watch the newest job while it runs; the line at the top of the page moves with it.
// begun: a job that was just asked for; it may be done before it is looked at.
export async function follow(begun = null) {
  clearTimeout(following);
  watched = begun ?? watched;
  const jobs = await ask("api/jobs").catch(() => null);
  const job = jobs?.jobs[0];
  const running = job?.state === "running";
  find("pulse").dataset.is = running ? "working" : "";
  for (const place of job ? document.querySelectorAll(".job-place") : []) fill(place, running ? moving(job) : done(job));
  if (running) {
    fill("index-line", `Indexing ${job.done} of ${job.total || "…"}`);
    watched = job.id;
    following = setTimeout(follow, EVERY);
    // what is in already can be searched
    if (job.done !== seen) document.dispatchEvent(new CustomEvent("indexed", { detail: job.id }));
    seen = job.done;
  } else if (!jobs && watched !== null) {
    following = setTimeout(follow, EVERY); // the server is busy, or away
  } else if (job && job.id === watched) {
    watched = null;
    document.dispatchEvent(new CustomEvent("indexed"));
  }
}

function moving(job) {
  const stop = () => attempt(async () => {
    await send(`api/jobs/${job.id}/cancel`, {});
    follow();
  });
  return make(
    "div",
    { class: "job" },
    make("div", {}, `${job.done} of ${job.total || "…"} files`, button("plain", stop, "Stop")),
    make("p", {}, job.says),
    make("progress", { max: job.total || 1, value: job.done, "aria-label": "Indexing" }),
  );
}

const done = (job) => make("div", { class: "job" }, make("p", {}, job.says));
