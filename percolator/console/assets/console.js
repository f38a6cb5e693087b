// What a page does beyond what the server has written: it stays up to date, has charts, and listens to keys.
import { drawCharts, addPoints, recolour } from "./charts.js";
import { follow } from "./live.js";
import { patch } from "./patch.js";
import { listenToKeys } from "./keys.js";
import { offerTheme } from "./theme-choice.js";

offerTheme(recolour);
listenToKeys();

const content = document.getElementById("content");
if (document.querySelector("[data-chart]")) drawCharts(content);

if ("live" in document.body.dataset) {
  follow(document.body.dataset.page, document.getElementById("live"), {
    samples: ({ whole, points }) => addPoints(points, whole),
    main: (html) => {
      const next = document.createElement("div");
      next.innerHTML = html; // written by the server's templates, which escape; the policy lets no script in
      patch(content, next);
      drawCharts(content);
    },
  });
}

// A notice in the address would come back with every reload.
if (new URLSearchParams(location.search).has("done")) history.replaceState(null, "", location.pathname);
