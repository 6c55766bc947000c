// What the theme leaves out: names for the columns beside a page, boxes that scroll by keyboard, and
// corners of tables that are no headings.
document.addEventListener("DOMContentLoaded", () => {
  document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "Pages");
  document.querySelector(".toc-drawer")?.setAttribute("aria-label", "On this page");
  for (const box of document.querySelectorAll("pre, .table-wrapper")) box.tabIndex = 0;
  for (const head of document.querySelectorAll("th")) {
    if (!head.textContent.trim()) head.replaceWith(document.createElement("td"));
  }
});
