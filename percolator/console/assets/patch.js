// Makes the children of one element like those of another, touching only what differs: focus, selections, scroll positions and open
// confirmations stay as they are. Elements with data-name are matched by it, others by their place. What has data-keep is left alone.

export function patch(old, next) {
  const named = new Map();
  const stay = new Set(Array.from(next.children, (child) => child.dataset.name));
  for (const child of [...old.children]) { // what goes does so first: to move what stays would take the focus from it
    const name = child.dataset.name;
    if (name && (!stay.has(name) || named.has(name))) child.remove();
    else if (name) named.set(name, child);
  }
  let at = old.firstChild;
  for (const wanted of [...next.childNodes]) {
    const name = wanted.nodeType === Node.ELEMENT_NODE && wanted.dataset.name;
    let match = name ? named.get(name) : at;
    if (!match || !alike(match, wanted)) match = null;
    if (name) named.delete(name); // the next one of this name is another
    if (!match) {
      old.insertBefore(wanted, at);
      continue;
    }
    if (match === at) at = at.nextSibling;
    else old.insertBefore(match, at);
    update(match, wanted);
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

function alike(a, b) {
  if (a.nodeType !== b.nodeType) return false;
  if (a.nodeType !== Node.ELEMENT_NODE) return true;
  return a.tagName === b.tagName && (a.dataset.name || "") === (b.dataset.name || "");
}

function update(old, next) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== next.data) old.data = next.data;
    return;
  }
  if ("keep" in old.dataset) return;
  for (const { name, value } of next.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    const mine = name === "open" && old.tagName === "DETAILS"; // the reader's, not the server's
    if (!next.hasAttribute(name) && !mine) old.removeAttribute(name);
  }
  patch(old, next);
}
