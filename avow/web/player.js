// A moment of a video: a player that begins at its start, and the moments before and after it.

import { media, thumbnail, timely } from "./api.js";
import { fill, find, make, title } from "./build.js";
import { grid } from "./list.js";
import { name, span } from "./words.js";

// The browser stops by itself at the end that stands in the address.
export function player(hit) {
  const times = `#t=${hit.start.toFixed(3)},${hit.end.toFixed(3)}`;
  const video = make("video", {
    controls: true, preload: "metadata", playsinline: true, poster: thumbnail(hit.id, 1024),
    src: media(hit.id) + times, "aria-label": `${name(hit.path)}, ${span(hit)}`,
  });
  video.addEventListener("error", () => {
    const words = "This browser cannot play the file, so its key frame is shown.";
    const still = make("img", { src: thumbnail(hit.id, 1024), alt: name(hit.path) });
    video.replaceWith(still);
    still.after(make("p", { class: "note" }, words));
  });
  find("why").addEventListener("close", () => video.pause(), { once: true });
  return video;
}

export async function strip(hit, { jump }, place, current) {
  if (hit.kind && hit.kind !== "video") return;
  const beside = await timely(`api/items/${hit.id}/neighbours`, current);
  if (!(beside?.items.length > 1)) return;
  const list = grid(beside.items, { open: jump, wall: true, label: "Moments of this video" });
  list.classList.add("strip");
  list.querySelector(`.look[data-id="${hit.id}"]`)?.setAttribute("aria-current", "true");
  fill(place, title("Before and after"), list);
}
