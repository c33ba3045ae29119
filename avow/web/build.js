// Elements from code. Text always becomes text, so a file name cannot become markup.

export function make(tag, given = {}, ...inside) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(given)) {
    if (value == null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "class") element.className = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...there(inside));
  return element;
}

const there = (inside) => inside.flat(Infinity).filter((one) => one != null);

export const button = (kind, run, ...inside) => pressed({ class: kind, onclick: run }, ...inside);

export const pressed = (given, ...inside) => make("button", { type: "button", ...given }, ...inside);

// A button with a picture on it, and its name for those who do not see it.
export const press = (shape, words, run) => pressed(
  { class: "icon", "aria-label": words, title: words, onclick: run }, icon(shape),
);

// A line that opens what is below it.
export const fold = (kind, words, ...inside) => make("details", { class: kind }, make("summary", {}, words), ...inside);

export const title = (words) => make("h3", {}, words);

// Names and values; those without a value are left out.
export const facts = (pairs) => make("dl", { class: "facts" }, pairs.filter(([, value]) => value).map(
  ([key, value]) => [make("dt", {}, key), make("dd", {}, value)],
));

export const on = (id, event, run) => find(id).addEventListener(event, run);

export const note = (sentence) => make("p", { class: "note" }, sentence);

// The shapes stand in the markup; each use is a copy.
export function icon(name) {
  const svg = find("shapes").cloneNode();
  svg.append(find(`shape-${name}`).cloneNode());
  for (const one of [svg, svg.firstChild]) one.removeAttribute("id");
  svg.removeAttribute("hidden");
  return svg;
}

export const find = (id) => document.getElementById(id);

// place: an element, or its id.
export const fill = (place, ...inside) => (find(place) ?? place).replaceChildren(...there(inside));

// A width from 0 to 1, set from code because styles in markup are not allowed.
export function wide(element, share) {
  element.style.width = `${Math.round(Math.min(Math.max(share, 0), 1) * 1000) / 10}%`;
  return element;
}

export const meter = (share) => make("span", { class: "bar", "aria-hidden": "true" }, wide(make("span"), share));

let clearing = 0;

export function say(sentence, action = null) {
  clearTimeout(clearing);
  fill("toast", sentence, action && pressed({ onclick: action.run }, action.name));
  clearing = setTimeout(() => fill("toast"), action ? 8000 : 4000);
}

// Do something that may be refused, and say so where it is.
export const attempt = (run) => run().catch((error) => say(error.message));
