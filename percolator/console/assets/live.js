// Keeps the page up to date by server-sent events. A page that nobody can see does not ask for any.

export function follow(page, badge, handlers) {
  let source = null;
  let lastEvent = 0;
  const interval = Number(document.body.dataset.interval) || 2000;

  const say = (state, text) => {
    if (badge.dataset.state === state && badge.textContent === text) return;
    badge.dataset.state = state;
    badge.textContent = text;
  };

  const open = () => {
    if (source || document.hidden) return;
    const query = new URLSearchParams(location.search); // what the page's list shows
    query.set("page", page);
    source = new EventSource("events?" + query);
    source.onerror = () => {
      say("lost", "reconnecting");
      if (source && source.readyState === EventSource.CLOSED) { // refused: too many pages are live, or access has ended
        say("still", "not live");
        close();
        setTimeout(open, 30_000);
      }
    };
    source.addEventListener("large", tooLarge);
    for (const [name, handle] of Object.entries(handlers)) {
      source.addEventListener(name, (event) => {
        lastEvent = Date.now();
        handle(JSON.parse(event.data));
        const stale = document.querySelector("[data-stale]"); // the console answers, and has no answers
        say(stale ? "stale" : "live", stale ? stale.dataset.stale : "live");
      });
    }
  };

  const tooLarge = () => {
    say("late", "too large to be kept live");
    close();
  };

  const close = () => {
    if (source) source.close();
    source = null;
  };

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { close(); say("still", "paused"); } else open();
  });
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
  setInterval(() => {
    if (source && lastEvent && Date.now() - lastEvent > 5 * interval + 5000) say("late", "no news");
  }, 1000);
  open();
}
