// Sets the chosen colours before anything is drawn, so that a dark page never flashes white. Without a choice the
// system's preference holds, by CSS alone.
try {
  const chosen = localStorage.getItem("stormjay-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch {
  // A browser that keeps nothing still shows the page.
}
