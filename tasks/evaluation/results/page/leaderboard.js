"use strict";
// Tables sort by their headings. The order stands in the address as #sort=TABLE.COLUMN.up, so that it can be sent on.
const words = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

function compare(one, other) {
  const [a, b] = [Number(one), Number(other)];
  return Number.isNaN(a) || Number.isNaN(b) ? words.compare(one, other) : a - b;
}

function sort(table, column, direction) {
  const heading = [...table.tHead.rows[0].cells].find((cell) => cell.dataset.column === column);
  if (!heading) return;
  const sign = direction === "down" ? -1 : 1;
  const value = (row) => row.cells[heading.cellIndex].dataset.value;
  const rows = [...table.tBodies[0].rows].sort((one, other) => {
    const [a, b] = [value(one), value(other)];
    if (a === undefined || b === undefined) return (a === undefined) - (b === undefined); // no figure: last, either way
    return sign * compare(a, b);
  });
  table.tBodies[0].append(...rows);
  for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", sign < 0 ? "descending" : "ascending");
}

function sortAsAddressSays() {
  const [, id, column, direction] = /^#sort=(\w+)\.(\w+)\.(up|down)$/.exec(location.hash) ?? [];
  const table = id && document.getElementById(id);
  if (table instanceof HTMLTableElement) sort(table, column, direction);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("th button");
  if (!button) return;
  const heading = button.closest("th");
  const now = { ascending: "up", descending: "down" }[heading.getAttribute("aria-sort")];
  const direction = now ? (now === "up" ? "down" : "up") : button.dataset.first;
  const table = button.closest("table");
  sort(table, heading.dataset.column, direction);
  try {
    history.replaceState(null, "", `#sort=${table.id}.${heading.dataset.column}.${direction}`);
  } catch { /* a page in a frame without an address sorts all the same */ }
});
window.addEventListener("hashchange", sortAsAddressSays);
sortAsAddressSays();
