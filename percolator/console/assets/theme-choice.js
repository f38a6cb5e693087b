// The button that chooses colours: as the system has them, light, dark. The choice is kept in the browser.

const names = ["", "light", "dark"];
const signs = { "": "◐", light: "☀", dark: "☾" };
const titles = { "": "as the system has them", light: "light", dark: "dark" };

export function offerTheme(changed) {
  const button = document.getElementById("theme");
  const root = document.documentElement;
  const show = () => {
    const now = root.dataset.theme ?? "";
    button.firstElementChild.textContent = signs[now];
    button.setAttribute("aria-label", `Colours: ${titles[now]}`);
    button.title = `Colours: ${titles[now]} (c)`;
  };
  button.hidden = false;
  show();
  button.addEventListener("click", () => {
    const next = names[(names.indexOf(root.dataset.theme ?? "") + 1) % names.length];
    if (next) root.dataset.theme = next;
    else delete root.dataset.theme;
    try {
      if (next) localStorage.setItem("percolator.theme", next);
      else localStorage.removeItem("percolator.theme");
    } catch {
      // then the choice lasts as long as the page
    }
    show();
    changed();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
}
