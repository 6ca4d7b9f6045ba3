// Refreshes the page in place after each poll of the cluster, and copies commands. What has the focus, is selected,
// scrolled or typed stays: nodes are changed, not replaced.
"use strict";
(() => {
  const root = document.documentElement;
  const pause = document.getElementById("pause");
  const status = document.getElementById("status");
  const RETRY_MS = 5000;
  const isLive = document.body.dataset.live === "yes";
  let source = null, isRefreshing = false, isPaused = false, isAgain = false;

  const keyOf = (node) => {
    if (node.nodeType !== 1) return null;
    if (node.id) return `#${node.id}`;
    const link = node.tagName === "TR" ? node.querySelector("a[href]") : null;
    return link ? `${node.tagName} ${link.getAttribute("href")}` : null;
  };

  const isAlike = (one, other) => one.nodeType === other.nodeType && one.nodeName === other.nodeName;

  const morph = (old, fresh) => {
    if (old.nodeType !== 1) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    if (old.nodeName === "INPUT" || old === pause) return;
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    const keyed = new Map();
    for (const child of old.childNodes) {
      const key = keyOf(child);
      if (key) keyed.set(key, child);
    }
    let at = old.firstChild;
    for (const child of [...fresh.childNodes]) {
      const key = keyOf(child);
      let match = key ? keyed.get(key) : at && !keyOf(at) && isAlike(at, child) ? at : null;
      if (!match) {
        old.insertBefore(document.importNode(child, true), at);
        continue;
      }
      if (match === at) at = at.nextSibling;
      else old.insertBefore(match, at);
      morph(match, child);
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  };

  const tell = (text) => {
    if (status.textContent !== text) status.textContent = text;
    status.className = "outage";
  };

  const refresh = async () => {
    if (isRefreshing) {
      isAgain = true;
      return;
    }
    isRefreshing = true;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (answer.status === 401) return tell("The token is no longer valid: open the address that rmq console printed.");
      if (!(answer.headers.get("Content-Type") || "").startsWith("text/html")) return tell(await answer.text());
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      const focused = document.activeElement;
      for (const id of ["updated", "status"]) morph(document.getElementById(id), fresh.getElementById(id));
      // During an outage, a page that cannot be read keeps its last figures.
      if (isLive && answer.status !== 503) {
        morph(document.querySelector("header"), fresh.querySelector("header"));
        morph(document.getElementById("main"), fresh.getElementById("main"));
        label();
      }
      if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
    } catch {
      tell("The console itself does not answer: was it ended? This page tries again.");
    } finally {
      isRefreshing = false;
    }
    if (isAgain) {
      isAgain = false;
      refresh();
    }
  };

  const listen = () => {
    if (source || isPaused || document.hidden) return;
    source = new EventSource("/events");
    source.onmessage = refresh;
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) {
        // Refused: by a console that ends, or because of too many pages. A page that was lost tries again by itself.
        stop();
        setTimeout(listen, RETRY_MS);
      }
      refresh();
    };
  };

  const stop = () => {
    if (source) source.close();
    source = null;
  };

  const label = () => {
    pause.textContent = isPaused ? "Resume" : "Pause";
    pause.setAttribute("aria-pressed", String(isPaused));
    pause.title = `This page is refreshed every ${pause.dataset.seconds} s`;
  };

  const copy = async (button) => {
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code); // the clipboard is for secure pages only
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  };

  root.classList.add("js");
  label();
  pause.addEventListener("click", () => {
    isPaused = !isPaused;
    label();
    if (isPaused) stop();
    else listen();
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.copy");
    if (button) copy(button);
  });
  // A hidden page listens to nothing: browsers keep six connections to a server, for all tabs.
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : listen()));
  addEventListener("pagehide", stop);
  addEventListener("pageshow", listen);
})();
