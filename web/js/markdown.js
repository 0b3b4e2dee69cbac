// Markdown on the page: blocks become elements, and while text streams in, those that did not change stay.
import {copyText, el, iconButton} from "./dom.js";
import {parseBlocks} from "./markdown_blocks.js";
import {inlineNodes} from "./markdown_inline.js";

function codeElement(block) {
  const copy = iconButton("copy", "Copy the code", () => copyText(block.text, copy));
  return el("figure", {class: "code"},
            el("figcaption", {}, el("span", {}, block.language || "text"), copy),
            el("pre", {tabindex: "0"}, el("code", {}, block.text)));
}

function tableElement(block) {
  const row = (cells, tag) => el("tr", {}, cells.map((cell, column) => el(
      tag, {class: "align-" + block.align[column], scope: tag === "th" ? "col" : undefined}, inlineNodes(cell))));
  return el("div", {class: "table", tabindex: "0"},
            el("table", {}, el("thead", {}, row(block.head, "th")),
               el("tbody", {}, block.rows.map((cells) => row(cells, "td")))));
}

function listElement(block) {
  const item = (blocks) => el("li", {}, blocks.map(
      (inner) => inner.kind === "paragraph" && blocks.length === 1 ? inlineNodes(inner.text) : blockElement(inner)));
  const start = block.ordered && block.start !== 1 ? String(block.start) : undefined;
  return el(block.ordered ? "ol" : "ul", {start}, block.items.map(item));
}

function blockElement(block) {
  switch (block.kind) {
    // The page's own headings are of the first two levels.
    case "heading": return el("h" + Math.min(6, block.level + 2), {class: "level-" + block.level},
                              inlineNodes(block.text));
    case "code": return codeElement(block);
    case "rule": return el("hr");
    case "quote": return el("blockquote", {}, block.blocks.map(blockElement));
    case "list": return listElement(block);
    case "table": return tableElement(block);
    default: return el("p", {}, inlineNodes(block.text));
  }
}

export class MarkdownView {
  constructor() {
    this.element = el("div", {class: "prose"});
    this.sources = [];
  }

  update(text) {
    const blocks = parseBlocks(text);
    let same = 0;
    while (same < blocks.length && this.sources[same] === blocks[same].source) ++same;
    while (this.element.childElementCount > same) this.element.lastElementChild.remove();
    this.element.append(...blocks.slice(same).map(blockElement));
    this.sources = blocks.map((block) => block.source);
  }
}
