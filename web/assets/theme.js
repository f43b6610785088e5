// theme.js: sets light or dark before the first paint, as it was chosen the last time; else the system's choice holds.
{
    const chosen = localStorage.getItem("theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}
