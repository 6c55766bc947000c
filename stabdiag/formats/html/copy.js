// Copying; if the browser does not allow it, the text is selected.

async function copy(button) {
  const text = document.getElementById(button.dataset.copy);
  const said = document.getElementById("said");
  try {
    await navigator.clipboard.writeText(text.textContent);
    button.classList.add("done");
    said.textContent = "Copied.";
    setTimeout(() => button.classList.remove("done"), 1500);
  } catch {
    getSelection().selectAllChildren(text);
    said.textContent = "Selected. Copy it with Control and C.";
  }
}

document.addEventListener("click", (click) => {
  const button = click.target.closest("button.copy");
  if (button) copy(button);
});
