// What the user chose: how to sample, what the model is told first, which tools it may call, how the page looks.
import {byId} from "./dom.js";

// Empty: what the model's own defaults say.
const kNumbers = ["temperature", "top_p", "top_k", "min_p", "max_tokens", "seed"];
const kNotForCanvas = ["top_p", "top_k", "min_p"];
const kTexts = ["system", "tools"];
const kThemes = ["", "light", "dark"];  // "": that of the system

const kNoSettings = {temperature: "", top_p: "", top_k: "", min_p: "", max_tokens: "", seed: "", system: "",
                            tools: "", think: "", theme: ""};

// Settings from storage, with nothing but the known fields.
export function cleanSettings(given) {
  const settings = {...kNoSettings};
  for (const name of Object.keys(settings)) {
    if (typeof given?.[name] === "string") settings[name] = given[name];
  }
  if (!kThemes.includes(settings.theme)) settings.theme = "";
  return settings;
}

export function applyTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

export function nextTheme(theme) {
  return kThemes[(kThemes.indexOf(theme) + 1) % kThemes.length];
}

// An empty list of definitions, or those of the text. Throws an Error with a sentence.
function toolsOf(text) {
  if (text.trim() === "") return [];
  let tools;
  try {
    tools = JSON.parse(text);
  } catch (error) {
    throw new Error(`The tools are not JSON: ${error.message}`);
  }
  if (!Array.isArray(tools)) tools = [tools];
  return tools.map((tool) => (tool?.type === undefined && tool?.name ? {type: "function", function: tool} : tool));
}

export function thinks(settings, model) {
  return settings.think === "" ? model?.thinks ?? false : settings.think === "on";
}

// The part of a request's body that the settings decide.
export function requestOptions(settings, model) {
  const options = {};
  for (const name of kNumbers) {
    if (settings[name] === "" || (model.block_diffusion && kNotForCanvas.includes(name))) continue;
    options[name] = Number(settings[name]);
  }
  const tools = toolsOf(settings.tools);
  if (tools.length > 0) options.tools = tools;
  if (settings.think !== "") options.chat_template_kwargs = {enable_thinking: settings.think === "on"};
  return options;
}

export class SettingsDialog {
  // `saved` gets the settings, and the key {key, remember}.
  constructor(saved) {
    this.dialog = byId("settings");
    this.form = this.dialog.querySelector("form");
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (!this.check()) return;
      this.dialog.close();
      saved(this.read(), {key: this.form.elements.key.value.trim(), remember: this.form.elements.remember.checked});
    });
    this.form.elements.tools.addEventListener("input", () => this.check());
    byId("reset-settings").addEventListener("click", () => this.fill({...kNoSettings, theme: this.settings.theme}));
  }

  open(settings, model, key, remember) {
    this.settings = settings;
    this.fill(settings);
    this.form.elements.key.value = key;
    this.form.elements.remember.checked = remember;
    for (const name of kNumbers) {
      const input = this.form.elements[name];
      const own = model?.sampling?.[name];
      if (own !== undefined) input.placeholder = String(own);
      input.closest(".field").hidden = (model?.block_diffusion ?? false) && kNotForCanvas.includes(name);
    }
    this.form.elements.think.options[0].textContent =
        model ? `As the model does: ${model.thinks ? "on" : "off"}` : "As the model does";
    byId("temperature-note").hidden = !model?.block_diffusion;
    this.check();
    this.dialog.showModal();
  }

  fill(settings) {
    for (const name of [...kNumbers, ...kTexts, "think", "theme"]) this.form.elements[name].value = settings[name];
  }

  read() {
    const settings = {};
    for (const name of [...kNumbers, ...kTexts, "think", "theme"]) settings[name] = this.form.elements[name].value;
    return settings;
  }

  check() {
    const field = this.form.elements.tools;
    let fault = "";
    try {
      toolsOf(field.value);
    } catch (error) {
      fault = error.message;
    }
    byId("tools-fault").textContent = fault;
    field.setAttribute("aria-invalid", String(fault !== ""));
    if (fault) field.focus();
    return fault === "";
  }
}
