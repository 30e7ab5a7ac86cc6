// On a phone, the rows of wide tables become blocks: each cell says the heading of its column (site.css).
addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("article table.docutils")) {
    const headings = [...table.querySelectorAll("thead th")].map((heading) => heading.textContent.trim());
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.cells].forEach((cell, column) => {
        if (cell.textContent.trim()) cell.dataset.heading = headings[column] ?? "";
      });
    }
  }
});
