// Reads [{out, password?, header, blocks}] as JSON from standard input and writes each `out`, an HWP 5 or HWPX file.
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { HwpDocument, initSync } from '@rhwp/core';

// The package lays text out and asks for widths; the figures of a typical Korean typeface are good enough for samples.
globalThis.measureTextWidth = (font, text) => {
  const size = Number(/([\d.]+)px/.exec(font)?.[1] ?? 10);
  return [...text].reduce((width, char) => width + size * (char.codePointAt(0) > 0x2000 ? 1 : 0.5), 0);
};
initSync({ module: readFileSync(createRequire(import.meta.url).resolve('@rhwp/core/rhwp_bg.wasm')) });

function writeParagraph(doc, block) {
  const para = doc.getParagraphCount(0) - 1;
  if (block.text) doc.insertText(0, para, 0, block.text);
  const format = { fontSize: block.size ?? 1000, bold: block.bold ?? false };
  if (block.text) doc.applyCharFormat(0, para, 0, block.text.length, JSON.stringify(format));
  doc.applyParaFormat(0, para, JSON.stringify({ alignment: block.align ?? 'justify' }));
  if (block.footnote) {
    const at = block.text.indexOf(block.footnoteAfter) + block.footnoteAfter.length;
    const { controlIdx } = JSON.parse(doc.insertFootnote(0, para, at));
    doc.insertTextInFootnote(0, para, controlIdx, 0, 0, block.footnote);
  }
  doc.splitParagraph(0, para, doc.getParagraphLength(0, para));
}

function writeTable(doc, { rows, widths, merges = [] }) {
  const para = doc.getParagraphCount(0) - 1;
  const options = { sectionIdx: 0, paraIdx: para, charOffset: 0, rowCount: rows.length, colCount: widths.length };
  const made = JSON.parse(doc.createTableEx(JSON.stringify({ ...options, treatAsChar: false, colWidths: widths })));
  rows.forEach((row, r) =>
    row.forEach((text, c) => {
      if (text) doc.insertTextInCell(0, made.paraIdx, made.controlIdx, r * widths.length + c, 0, 0, text);
    }),
  );
  for (const merge of merges) doc.mergeTableCells(0, made.paraIdx, made.controlIdx, ...merge);
}

function write({ out, password, header, blocks }) {
  const doc = HwpDocument.createEmpty();
  doc.createBlankDocument();
  for (const block of blocks) (block.rows ? writeTable : writeParagraph)(doc, block);
  if (header) {
    doc.createHeaderFooter(0, true, 0);
    doc.insertTextInHeaderFooter(0, true, 0, 0, 0, header);
  }
  const bytes = password ? doc.exportHwpWithPassword(password) : out.endsWith('.hwpx') ? doc.exportHwpx() : doc.exportHwp();
  writeFileSync(out, bytes);
}

JSON.parse(readFileSync(0, 'utf8')).forEach(write);
