// Pictures in rows, as many as there are: of a long list only what is in view is in the document.

import { make } from "./build.js";
import { card } from "./grid.js";

const AT_ONCE = 100; // items asked for together
const AROUND = 2; // rows kept above and below what is in view
const FEW = 60; // so many are shown without looking at what is in view

export const grid = (hits, how) => endless({ label: "Answers", ...how, total: hits.length, known: hits });

// load: gives the items from a place on. known: items that are there already.
export function endless({ total, load, known = [], label, ...how }) {
  const shape = how.wall ? "grid wall" : total < 4 ? "grid few" : "grid";
  const list = make("ul", { class: shape, "aria-label": label, tabindex: "-1" });
  const items = [...known];
  const asked = new Map(); // pages that were asked for
  const cards = new Map(); // what is in the document, by place
  let row = 200; // height of a row with the gap below it
  let measured = 0; // the width at which it was measured
  let stop = 0; // the place that the Tab key stops at

  const page = (number) => {
    const from = number * AT_ONCE;
    if (!asked.has(number)) {
      asked.set(number, load(from, AT_ONCE).then((found) => {
        found.forEach((item, at) => {
          items[from + at] = item;
          if (cards.has(from + at)) put(from + at);
        });
        if (list.isConnected) draw();
      }, () => asked.delete(number)));
    }
    return asked.get(number);
  };
  list.get = async (place) => {
    if (place >= 0 && place < total && !items[place]) await page(Math.floor(place / AT_ONCE));
    return items[place];
  };
  list.find = (id) => items.findIndex((one) => one?.id === id);
  list.known = (id) => items[list.find(id)];

  const columns = () => getComputedStyle(list).gridTemplateColumns.split(" ").length;
  const drop = (place) => {
    cards.get(place).remove();
    cards.delete(place);
  };
  const put = (place) => {
    const made = items[place]
      ? card(items[place], place === stop, how)
      : make("li", { class: "card wait" }, make("div", { class: "look" }));
    made.dataset.place = place;
    Object.assign(made, { ariaPosInSet: place + 1, ariaSetSize: total });
    if (!items[place]) page(Math.floor(place / AT_ONCE));
    if (cards.has(place)) cards.get(place).replaceWith(made);
    else list.insertBefore(made, [...list.children].find((one) => +one.dataset.place > place) ?? null);
    cards.set(place, made);
  };

  // rows are as high as the first card that came, so that what is not there takes its place
  function measure() {
    const one = list.querySelector(".card:not(.wait)");
    if (!one || list.clientWidth === measured) return;
    list.style.gridAutoRows = "";
    const high = one.offsetHeight;
    measured = list.clientWidth;
    row = high + parseFloat(getComputedStyle(list).rowGap);
    list.style.gridAutoRows = `${high}px`;
  }

  function draw() {
    const focused = list.contains(document.activeElement);
    let [first, last, rows, wide] = [0, 1, 1, total];
    if (total > FEW) {
      wide = columns();
      rows = Math.ceil(total / wide);
      measure();
      const top = list.getBoundingClientRect().top;
      first = Math.min(Math.max(Math.floor(-top / row) - AROUND, 0), rows - 1);
      last = Math.min(Math.max(Math.ceil((innerHeight - top) / row) + AROUND, first + 1), rows);
    }
    const [from, to] = [first * wide, Math.min(last * wide, total)];
    for (const place of [...cards.keys()]) if (place < from || place >= to) drop(place);
    for (let place = from; place < to; place += 1) if (!cards.has(place)) put(place);
    list.style.paddingTop = `${first * row}px`;
    list.style.paddingBottom = `${(rows - last) * row}px`;
    // what had the focus may have left the document: the keys go on from the list
    if (focused && !list.contains(document.activeElement)) list.focus({ preventScroll: true });
  }

  list.addEventListener("keydown", async (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const wide = columns();
    const next = {
      ArrowRight: stop + 1, ArrowLeft: stop - 1, ArrowDown: stop + wide, ArrowUp: stop - wide, Home: 0, End: total - 1,
    }[event.key];
    if (!(next >= 0 && next < total)) return;
    event.preventDefault();
    stop = next;
    if (!cards.has(next)) {
      scrollBy(0, list.getBoundingClientRect().top + Math.floor(next / wide) * row - innerHeight / 3);
      draw();
      await list.get(next);
    }
    cards.get(next)?.querySelector("button.look")?.focus();
  });
  // one picture of a list is a stop of the Tab key; the arrows walk between them
  list.addEventListener("focusin", ({ target }) => {
    if (!target.matches(".look")) return;
    for (const other of list.querySelectorAll(".look")) other.tabIndex = -1;
    target.tabIndex = 0;
    stop = +target.closest("li").dataset.place;
  });
  draw();
  if (total > FEW) follow(list, draw);
  return list;
}

// Draw again when the page moves or the list changes its size, until it has left the document.
function follow(list, draw) {
  let waiting = 0;
  const later = () => {
    waiting ||= requestAnimationFrame(() => {
      waiting = 0;
      if (list.isConnected) return draw();
      watch.disconnect();
      removeEventListener("scroll", later);
    });
  };
  const watch = new ResizeObserver(later);
  watch.observe(list);
  addEventListener("scroll", later, { passive: true });
}
