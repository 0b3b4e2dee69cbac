// Elements are made node by node. Text of the model never becomes markup; the page's policy would not let it.

const kSvg = "http://www.w3.org/2000/svg";

// attributes: "onclick" and the like are listeners, true is an empty attribute, false and undefined are left out.
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === undefined || value === null) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function byId(id) {
  return document.getElementById(id);
}

// Drawn with a stroke on a field of 24 by 24.
const kIcons = {
  arrowUp: "M12 19V5M6 11l6-6 6 6",
  back: "M15 5l-7 7 7 7",
  canvas: "M4 5h7M14 5h6M4 10h3M10 10h10M4 15h9M16 15h4M4 20h6",
  check: "M5 12.5l4.5 4.5L19 7.5",
  close: "M6 6l12 12M18 6L6 18",
  copy: "M9 9h11v11H9zM15 9V4H4v11h5",
  down: "M12 5v14M6 13l6 6 6-6",
  download: "M12 4v11M7 10.5l5 5 5-5M5 20h14",
  edit: "M4 20l1-4.5L16.5 4 20 7.5 8.5 19 4 20zM14 6.5l3.5 3.5",
  forward: "M9 5l7 7-7 7",
  help: "M9 9a3 3 0 1 1 4.2 2.75c-.8.35-1.2.95-1.2 1.75v.5M12 17.5v.01M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18z",
  menu: "M4 7h16M4 12h16M4 17h10",
  moon: "M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5z",
  pause: "M8 5v14M16 5v14",
  play: "M7 5l12 7-12 7z",
  plus: "M12 5v14M5 12h14",
  retry: "M20 12a8 8 0 1 1-2.5-5.8M20 4v4.5h-4.5",
  settings: "M4 7h9M17 7h3M4 17h3M11 17h9M15 5v4M9 15v4",
  stop: "M7 7h10v10H7z",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M4 12H2M22 12h-2M5 5l1.4 1.4M17.6 17.6L19 19M19 5l-1.4 1.4M6.4 17.6L5 19",
  system: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM12 3v18M12 7h6.5M12 12h9M12 17h6.5",
  thought: "M9 18h6M10 21h4M12 3a6 6 0 0 0-3.5 10.9c.7.6 1 1.3 1 2.1h5c0-.8.3-1.5 1-2.1A6 6 0 0 0 12 3z",
  tool: "M14.5 6.5a4 4 0 0 0-5.2 5.2L4 17v3h3l5.3-5.3a4 4 0 0 0 5.2-5.2L15 12l-3-3 2.5-2.5z",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  turn: "M9 6l6 6-6 6",
  upload: "M12 20V9M7 13.5l5-5 5 5M5 4h14",
};

export function icon(name) {
  const svg = document.createElementNS(kSvg, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("class", "icon icon-" + name);
  const path = document.createElementNS(kSvg, "path");
  path.setAttribute("d", kIcons[name]);
  svg.append(path);
  return svg;
}

// A button that shows an icon only; `label` is its name and its tooltip.
export function iconButton(name, label, onclick, attributes = {}) {
  return el("button", {type: "button", class: "icon-button", title: label, "aria-label": label, onclick,
                       ...attributes}, icon(name));
}

export function setIcon(button, name, label) {
  button.replaceChildren(icon(name));
  button.title = label;
  button.setAttribute("aria-label", label);
}

// Says something to those who cannot see the page.
export function announce(text) {
  byId("announcements").textContent = text;
}

export async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // not a secure context, or not allowed: the older way
    const field = el("textarea", {class: "off-screen"});
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
    button.focus();
  }
  const before = button.querySelector("svg");
  if (!before || before.classList.contains("icon-check")) return;
  before.replaceWith(icon("check"));
  announce("Copied");
  setTimeout(() => button.querySelector("svg")?.replaceWith(before), 1500);
}

// Measured values in three digits at most: 0.05, 1.2, 31.1, 212.
export function measured(value) {
  if (value >= 100) return counted(Math.round(value));
  return value.toFixed(value >= 1 ? 1 : 2);
}

export function counted(value) {
  return value.toLocaleString("en");
}
