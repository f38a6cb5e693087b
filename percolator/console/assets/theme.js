// Runs before the page is drawn, so that the colours that were chosen do not come late.
try {
  const chosen = localStorage.getItem("percolator.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // without storage the system's colours are used
}
