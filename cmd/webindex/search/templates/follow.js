// Brings a page up to date until the server says that nothing is left to be seen, ever more seldom.

const longest = 2000;
let pause = 200;

async function update() {
  const trouble = document.getElementById("trouble");
  try {
    const answer = await fetch(location.href);
    if (!answer.ok) throw new Error(answer.statusText);
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const id of ["travel", "results"]) replace(document.getElementById(id), next.getElementById(id));
    trouble.hidden = true;
  } catch {
    trouble.hidden = false;
    pause = longest;
  }
  follow();
}

// What is as it was stays, and with it the focus.
function replace(old, next) {
  if (old.innerHTML !== next.innerHTML) old.replaceChildren(...next.childNodes);
  if ("done" in next.dataset) old.dataset.done = "";
}

function follow() {
  if ("done" in document.getElementById("travel").dataset) return;
  setTimeout(update, pause);
  pause = Math.min(pause * 1.1, longest);
}

follow();
