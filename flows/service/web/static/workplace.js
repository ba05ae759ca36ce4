// The one script of the pages: an answer as it is written. Without it the form loads a page.
"use strict";
(() => {
  const form = document.getElementById("ask");
  if (!form || !window.fetch || !window.TextDecoderStream) return;
  const turns = document.getElementById("turns");
  const field = form.elements.question;
  const button = form.querySelector("button");

  turns.addEventListener("click", async ({ target }) => {
    if (!target.dataset.copies) return;
    await navigator.clipboard.writeText(target.closest("article").querySelector(".answer").innerText.trim());
    target.textContent = target.dataset.copies;
  });
  const showCopies = () => navigator.clipboard && turns.querySelectorAll("[data-copies]").forEach((copy) => { copy.hidden = false; });
  showCopies();

  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return; // composing: Enter ends a syllable of Hangul
    event.preventDefault();
    if (!button.disabled) form.requestSubmit();
  });

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const draft = addTurn(field.value);
    button.disabled = true;
    try {
      const body = new URLSearchParams(new FormData(form));
      const reply = await fetch(form.action, { method: "POST", body, headers: { Accept: "text/event-stream" } });
      if (!(reply.headers.get("Content-Type") || "").startsWith("text/event-stream")) throw new Error(await readError(reply));
      let ended = false;
      for await (const [name, data] of events(reply.body)) ended = show(draft, name, data) || ended;
      if (!ended) throw new Error(form.dataset.failed);
      field.value = "";
    } catch (error) {
      draft.status.textContent = error.message;
      draft.status.className = "warn";
    } finally {
      button.disabled = false;
      field.focus();
    }
  });

  function addTurn(question) {
    const article = turns.appendChild(document.createElement("article"));
    article.className = "turn";
    const title = article.appendChild(document.createElement("h2"));
    title.className = "question";
    title.textContent = question;
    const status = article.appendChild(document.createElement("p"));
    status.className = "way";
    status.textContent = "…";
    const text = article.appendChild(document.createElement("div"));
    text.className = "answer";
    article.scrollIntoView({ block: "nearest" });
    return { article, status, text };
  }

  function show(draft, name, data) {
    if (name === "stage") draft.status.textContent = `${data.name} …`;
    if (name === "draft") draft.text.textContent = "replace" in data ? data.replace : draft.text.textContent + data.delta;
    if (name === "error") throw new Error(data.error);
    if (name !== "answer") return false;
    draft.article.outerHTML = data.html; // written by the server, which escapes all text
    const place = document.getElementById("place");
    if (data.place) place.innerHTML = data.place;
    showCopies();
    window.htmx?.process(turns);
    window.htmx?.process(place);
    form.elements.session.value = data.session;
    if (data.url) history.replaceState(null, "", data.url);
    return true;
  }

  async function readError(reply) {
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    return page.querySelector("[role=alert]")?.textContent || form.dataset.failed;
  }

  async function* events(body) {
    let rest = "";
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += value;
      const messages = rest.split("\n\n");
      rest = messages.pop();
      for (const message of messages) {
        const [, name, data] = message.match(/^event: (.*)\ndata: (.*)$/s);
        yield [name, JSON.parse(data)];
      }
    }
  }
})();
