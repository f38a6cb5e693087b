// Keys: g and a letter go to a page, / to the form for a row, ? lists them. Nothing happens while somebody types.

const timeout = 1500; // milliseconds between g and the letter

export function listenToKeys() {
  const help = document.getElementById("help");
  const button = document.getElementById("keys");
  button.hidden = false;
  button.addEventListener("click", () => help.showModal());
  let pressed = 0; // when g was

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || help.open) return;
    if (Date.now() - pressed < timeout) {
      pressed = 0;
      const link = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); link.click(); return; }
    }
    switch (event.key) {
      case "g": pressed = Date.now(); break;
      case "?": event.preventDefault(); help.showModal(); break;
      case "c": document.getElementById("theme").click(); break;
      case "/": event.preventDefault(); lookAtRow(); break;
    }
  });
  if (location.hash === "#row") lookAtRow();
}

function lookAtRow() {
  const field = document.getElementById("row");
  if (field) { field.focus(); field.select(); return; }
  if (location.hash === "#row") return;
  // When the key is up again: its character must not reach the field of the page that comes.
  document.addEventListener("keyup", () => { location.href = "row#row"; }, { once: true });
}

function isTyping(target) {
  return target.closest?.("input, select, textarea, [contenteditable]") != null;
}
