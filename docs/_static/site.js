// On a phone, the rows of wide tables become blocks: each cell says the heading of its column (site.css).
// Elsewhere, short names in tables are not broken over two lines.
addEventListener("DOMContentLoaded", () => {
  for (const code of document.querySelectorAll("article table.docutils code"))
    if (code.textContent.length <= 22) code.classList.add("short");
  for (const table of document.querySelectorAll("article table.docutils")) {
    const headings = [...table.querySelectorAll("thead th")].map((heading) => heading.textContent.trim());
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.cells].forEach((cell, column) => {
        if (cell.textContent.trim()) cell.dataset.heading = headings[column] ?? "";
      });
    }
  }
});
