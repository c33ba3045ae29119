// Elements from code. Text always becomes text, so a file name cannot become markup.

const SHAPES = {
  picture: "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15.5 9.5h.01",
  yes: "m5 12.5 4.5 4.5L19 7.5",
  no: "M6.5 6.5l11 11M17.5 6.5l-11 11",
  close: "M6 6l12 12M18 6 6 18",
  back: "m14 6-6 6 6 6",
  on: "m10 6 6 6-6 6",
  answer: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zm-4 9.3 2.8 2.8L16 9.6",
  check: "M12 3 22 20H2L12 3zm0 6.5v4.5M12 17h.01",
  nothing_found: "M10.5 4a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM15.3 15.3 20.5 20.5M8 10.5h5",
  not_understood: "M4 4.5h16v12h-8.5L7 20.5v-4H4zM8.5 10.5h.01M12 10.5h.01M15.5 10.5h.01",
  unjudged: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zm-2.4 6.6a2.5 2.5 0 1 1 3.6 2.2c-.8.4-1.2 1-1.2 1.9M12 16.8h.01",
  mistake: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zm0 4.6v5.6M12 16.4h.01",
  offline: "M3 3l18 18M8.5 15.5a5 5 0 0 1 7 0M5 12a10 10 0 0 1 4-2.4M19 12a10 10 0 0 0-6.4-2.9M12 19h.01",
  empty: "M3 7l3-3h12l3 3v13H3zM3 7h18M9 12h6",
  locked: "M6 11h12v9H6zM8.5 11V8a3.5 3.5 0 0 1 7 0v3",
};

export function make(tag, given = {}, ...inside) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(given)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "class") element.className = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...inside.flat(Infinity).filter((one) => one !== null && one !== undefined));
  return element;
}

export const button = (kind, run, ...inside) => make("button", { type: "button", class: kind, onclick: run }, ...inside);

// A button with a picture on it, and its name for those who do not see it.
export const press = (shape, words, run) => make(
  "button", { type: "button", class: "icon", "aria-label": words, title: words, onclick: run }, icon(shape),
);

// Names and values; those without a value are left out.
export const facts = (pairs) => make("dl", { class: "facts" }, pairs.filter(([, value]) => value).map(
  ([key, value]) => [make("dt", {}, key), make("dd", {}, value)],
));

export const note = (sentence) => make("p", { class: "note" }, sentence);

export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const strokes = {
    viewBox: "0 0 24 24", fill: "none", stroke: "currentColor", "stroke-width": "1.7",
    "stroke-linecap": "round", "stroke-linejoin": "round", "aria-hidden": "true",
  };
  for (const [key, value] of Object.entries(strokes)) svg.setAttribute(key, value);
  const path = document.createElementNS(svg.namespaceURI, "path");
  path.setAttribute("d", SHAPES[name]);
  svg.append(path);
  return svg;
}

export const find = (id) => document.getElementById(id);

export function fill(place, ...inside) {
  place.replaceChildren(...inside.flat(Infinity).filter((one) => one !== null && one !== undefined));
}

// A meter from 0 to 1; its width is set from code because styles in markup are not allowed.
export function meter(share) {
  const inner = make("span");
  inner.style.width = `${Math.round(Math.min(Math.max(share, 0), 1) * 1000) / 10}%`;
  return make("span", { class: "bar", "aria-hidden": "true" }, inner);
}

let clearing = 0;

export function say(sentence, action = null) {
  clearTimeout(clearing);
  const button = action && make("button", { type: "button", onclick: action.run }, action.name);
  fill(find("toast"), sentence, button);
  clearing = setTimeout(() => fill(find("toast")), action ? 8000 : 4000);
}
