// Markdown, second half: the text of a block to DOM nodes. Links lead to http and https only; an image becomes a
// link, since showing it would ask another server; markup in the text is text.
import {el} from "./dom.js";

const kDeepestSpan = 6;
const kLongestLink = 2000;  // characters between the brackets, and of an address
const kEscapable = "\\`*_{}[]()#+-.!~|<>";
const kAddress = /https?:\/\/[^\s<>"'`]+/y;
const kMarks = [["**", "strong"], ["__", "strong"], ["~~", "del"], ["*", "em"], ["_", "em"]];

export function inlineNodes(text, depth = 0) {
  return new InlineReader(text, depth).read();
}

function safeAddress(address) {
  try {
    const url = new URL(address);
    return url.protocol === "https:" || url.protocol === "http:" ? url.href : null;
  } catch {
    return null;
  }
}

function link(href, children) {
  return el("a", {href, target: "_blank", rel: "noopener noreferrer nofollow"}, children);
}

class InlineReader {
  constructor(text, depth) {
    this.text = text;
    this.depth = depth;
    this.at = 0;
    this.nodes = [];
    this.plain = "";
    this.unclosed = new Set();  // marks that do not occur again: looking once is enough
  }

  read() {
    while (this.at < this.text.length) {
      if (!(this.escape() || this.code() || this.link() || this.address() || this.mark())) {
        this.plain += this.text[this.at++];
      }
    }
    this.flush();
    return this.nodes;
  }

  flush() {
    if (this.plain !== "") this.nodes.push(document.createTextNode(this.plain));
    this.plain = "";
  }

  add(node, next) {
    this.flush();
    this.nodes.push(node);
    this.at = next;
    return true;
  }

  escape() {
    if (this.text[this.at] !== "\\") return false;
    const next = this.text[this.at + 1];
    if (next === undefined || !kEscapable.includes(next)) return false;
    this.plain += next;
    this.at += 2;
    return true;
  }

  code() {
    if (this.text[this.at] !== "`") return false;
    let length = 1;
    while (this.text[this.at + length] === "`") ++length;
    const ticks = "`".repeat(length);
    const begin = this.at + length;
    let end = this.unclosed.has(ticks) ? -1 : this.text.indexOf(ticks, begin);
    while (end >= 0 && this.text[end + length] === "`") {
      let run = end + length;
      while (this.text[run] === "`") ++run;
      end = this.text.indexOf(ticks, run);
    }
    if (end < 0) {
      this.unclosed.add(ticks);
      this.plain += ticks;
      this.at = begin;
      return true;
    }
    const inside = this.text.slice(begin, end);
    const padded = inside.startsWith(" ") && inside.endsWith(" ") && inside.trim() !== "";
    return this.add(el("code", {}, padded ? inside.slice(1, -1) : inside), end + length);
  }

  // [words](address) and ![words](address)
  link() {
    const open = this.text[this.at] === "!" ? this.at + 1 : this.at;
    if (this.text[open] !== "[" || this.depth >= kDeepestSpan) return false;
    const middle = this.closing(open, "[", "]");
    if (middle < 0 || this.text[middle + 1] !== "(") return false;
    const end = this.closing(middle + 1, "(", ")");
    if (end < 0) return false;
    const address = this.text.slice(middle + 2, end).trim().split(/\s/)[0].replace(/^<|>$/g, "");
    const words = inlineNodes(this.text.slice(open + 1, middle), this.depth + 1);
    const href = safeAddress(address);
    if (href === null) return false;
    return this.add(link(href, words.length > 0 ? words : [address]), end + 1);
  }

  closing(from, open, close) {
    let nested = 0;
    const last = Math.min(this.text.length, from + kLongestLink);
    for (let i = from; i < last; ++i) {
      if (this.text[i] === "\\") ++i;
      else if (this.text[i] === open) ++nested;
      else if (this.text[i] === close && --nested === 0) return i;
    }
    return -1;
  }

  // An address that stands in the text as it is, or between < and >.
  address() {
    const begin = this.text[this.at] === "<" ? this.at + 1 : this.at;
    if (this.text[begin] !== "h" || /\w/.test(this.text[this.at - 1] ?? "")) return false;
    kAddress.lastIndex = begin;
    const match = kAddress.exec(this.text);
    if (!match) return false;
    let words = match[0].slice(0, kLongestLink);
    if (begin === this.at) {
      words = words.replace(/[.,:;!?*_~]+$/, "");
      while (words.endsWith(")") && words.split(")").length > words.split("(").length) words = words.slice(0, -1);
    } else if (this.text[begin + words.length] !== ">") {
      return false;
    }
    const href = safeAddress(words);
    if (href === null) return false;
    return this.add(link(href, [words]), begin + words.length + (begin - this.at));
  }

  mark() {
    const found = kMarks.find(([mark]) => this.text.startsWith(mark, this.at));
    if (!found || this.depth >= kDeepestSpan) return false;
    const [mark, tag] = found;
    const begin = this.at + mark.length;
    const word = mark[0] === "_" || mark === "*";  // within a word they are characters: snake_case, 2*3*4
    const end = this.opens(begin, word) ? this.findClosing(mark, begin, word) : -1;
    if (end < 0) {
      this.plain += mark;
      this.at = begin;
      return true;
    }
    return this.add(el(tag, {}, inlineNodes(this.text.slice(begin, end), this.depth + 1)), end + mark.length);
  }

  opens(begin, word) {
    if (/\s/.test(this.text[begin] ?? " ")) return false;
    return !word || !/\w/.test(this.text[this.at - 1] ?? " ");
  }

  findClosing(mark, begin, word) {
    if (this.unclosed.has(mark)) return -1;
    for (let end = this.text.indexOf(mark, begin + 1); end >= 0; end = this.text.indexOf(mark, end + 1)) {
      const after = end + mark.length;
      const doubled = mark.length === 1 && (this.text[after] === mark || this.text[end - 1] === mark);
      const inWord = word && /\w/.test(this.text[after] ?? " ");
      if (doubled || inWord || /\s/.test(this.text[end - 1]) || this.text[end - 1] === "\\") continue;
      return mark.length === 2 && this.text[after] === mark[0] ? end + 1 : end;  // of three, the last two
    }
    this.unclosed.add(mark);
    return -1;
  }
}
