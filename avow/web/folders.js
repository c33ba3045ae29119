// Choosing a folder to index, below what whoever serves has allowed.

import { ask, parameters, send } from "./api.js";
import { attempt, button, fill, make } from "./build.js";
import { count } from "./words.js";

// follow: called when a job has begun.
export const index = (folder, follow) => attempt(async () => {
  follow((await send("api/jobs", { folder })).id);
});

export function chooser(follow) {
  const place = make("div", { class: "chooser" });
  const go = (path) => attempt(async () => {
    place.inert = true; // what is shown is another folder than the one asked for
    try {
      show(place, await ask(`api/folders?${parameters({ path })}`), go, follow);
    } finally {
      place.inert = false;
    }
  });
  go(null);
  return place;
}

function show(place, told, go, follow) {
  fill(
    place,
    make("p", {}, told.path ? make("code", {}, told.path) : "Which folder holds your pictures?"),
    make("ul", { class: "folders", "aria-label": "Folders" }, told.folders.map((one) => make(
      "li", {}, button("plain", () => go(one.path), one.name),
    ))),
    told.path ? make(
      "p", { class: "below-picture" },
      button("plain", () => go(told.parent), told.parent ? "One folder up" : "Other folders"),
      button("act", () => index(told.path, follow), "Index this folder"),
      make("span", { class: "note" }, `${count(told.files, "picture or video", "pictures and videos")} lie in it; folders inside it count too.`),
    ) : null,
  );
}
