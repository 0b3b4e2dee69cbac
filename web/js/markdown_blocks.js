// Markdown, first half: text to blocks. A subset; what is not in it stays text.
//
// A block is {kind, source, ...}: heading {level, text}, code {language, text}, rule, quote {blocks},
// list {ordered, start, items: [blocks]}, table {align, head, rows}, paragraph {text}. `source` tells whether a
// block has changed. Every pattern looks at one line and takes time linear in it.

const kDeepest = 8;  // lists and quotes inside each other; deeper ones stay text

const kFence = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const kHeading = /^ {0,3}(#{1,6})[ \t]+(\S.*)$/;
const kRule = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const kQuote = /^ {0,3}> ?/;
const kItem = /^( *)([-*+]|\d{1,9}[.)])(?:[ \t]+|$)/;
const kTableLine = /^[ \t]*\|?[ \t:|-]*-[ \t:|-]*$/;

export function parseBlocks(text, depth = 0) {
  const lines = text.replace(/\r\n?/g, "\n").split("\n");
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (lines[at].trim() === "") {
      ++at;
      continue;
    }
    const read = readFence(lines, at) ?? readHeading(lines, at) ?? readRule(lines, at) ??
        (depth < kDeepest ? readQuote(lines, at, depth) ?? readList(lines, at, depth) : null) ??
        readTable(lines, at) ?? readParagraph(lines, at);
    read.block.source = lines.slice(at, read.next).join("\n");
    blocks.push(read.block);
    at = read.next;
  }
  return blocks;
}

function readFence(lines, at) {
  const open = kFence.exec(lines[at]);
  if (!open) return null;
  const mark = open[1];
  let next = at + 1;
  const closes = (line) => {
    const bare = line.trim();
    return bare.length >= mark.length && bare === mark[0].repeat(bare.length);
  };
  while (next < lines.length && !closes(lines[next])) ++next;
  const body = lines.slice(at + 1, next).join("\n");
  const block = {kind: "code", language: open[2].trim().split(/\s/)[0], text: body};
  return {block, next: Math.min(next + 1, lines.length)};
}

function readHeading(lines, at) {
  const match = kHeading.exec(lines[at]);
  if (!match) return null;
  let text = match[2].trimEnd();
  while (text.endsWith("#")) text = text.slice(0, -1);
  return {block: {kind: "heading", level: match[1].length, text: text.trimEnd()}, next: at + 1};
}

function readRule(lines, at) {
  return kRule.test(lines[at]) ? {block: {kind: "rule"}, next: at + 1} : null;
}

function readQuote(lines, at, depth) {
  let next = at;
  const inside = [];
  while (next < lines.length && kQuote.test(lines[next])) inside.push(lines[next++].replace(kQuote, ""));
  if (next === at) return null;
  return {block: {kind: "quote", blocks: parseBlocks(inside.join("\n"), depth + 1)}, next};
}

// An item goes on with what is indented by at least two columns, and with the rest of its paragraph.
function readList(lines, at, depth) {
  const first = kItem.exec(lines[at]);
  if (!first) return null;
  const ordered = /\d/.test(first[2]);
  const items = [];
  let next = at;
  while (next < lines.length) {
    const marker = kItem.exec(lines[next]);
    if (!marker || /\d/.test(marker[2]) !== ordered || marker[1].length > first[1].length + 1) break;
    const indent = Math.max(2, marker[0].length);
    const inside = [lines[next++].slice(marker[0].length)];
    while (next < lines.length && goesOn(lines, next, marker[1].length)) {
      inside.push(withoutIndent(lines[next++], indent));
    }
    items.push(parseBlocks(inside.join("\n"), depth + 1));
    while (next < lines.length && lines[next].trim() === "" && kItem.test(lines[next + 1] ?? "")) ++next;
  }
  return {block: {kind: "list", ordered, start: ordered ? parseInt(first[2], 10) : 1, items}, next};
}

function goesOn(lines, next, markerIndent) {
  const line = lines[next];
  const indented = (text) => /^\s*/.exec(text)[0].length >= markerIndent + 2;
  if (line.trim() === "") return next + 1 < lines.length && lines[next + 1].trim() !== "" && indented(lines[next + 1]);
  if (indented(line)) return true;
  return lines[next - 1].trim() !== "" && !startsBlock(line);
}

function withoutIndent(line, most) {
  let count = 0;
  while (count < most && (line[count] === " " || line[count] === "\t")) ++count;
  return line.slice(count);
}

function cellsOf(line) {
  const bare = line.trim().replace(/^\|/, "");
  const cells = [""];
  for (let i = 0; i < bare.length; ++i) {
    if (bare[i] === "\\" && bare[i + 1] === "|") cells[cells.length - 1] += bare[++i];
    else if (bare[i] === "|") cells.push("");
    else cells[cells.length - 1] += bare[i];
  }
  if (cells.length > 1 && cells[cells.length - 1].trim() === "") cells.pop();
  return cells.map((cell) => cell.trim());
}

function alignOf(cell) {
  if (cell.endsWith(":")) return cell.startsWith(":") ? "center" : "right";
  return "left";
}

function readTable(lines, at) {
  const under = lines[at + 1];
  if (!lines[at].includes("|") || under === undefined || !under.includes("|") || !kTableLine.test(under)) return null;
  const head = cellsOf(lines[at]);
  const align = cellsOf(under).map(alignOf);
  if (align.length !== head.length) return null;
  const rows = [];
  let next = at + 2;
  while (next < lines.length && lines[next].includes("|")) {
    const cells = cellsOf(lines[next++]).slice(0, head.length);
    while (cells.length < head.length) cells.push("");
    rows.push(cells);
  }
  return {block: {kind: "table", align, head, rows}, next};
}

function startsBlock(line) {
  return kFence.test(line) || kHeading.test(line) || kRule.test(line) || kQuote.test(line) || kItem.test(line);
}

function readParagraph(lines, at) {
  let next = at + 1;
  while (next < lines.length && lines[next].trim() !== "" && !startsBlock(lines[next])) ++next;
  const text = lines.slice(at, next).map((line) => line.trim()).join("\n");
  return {block: {kind: "paragraph", text}, next};
}
