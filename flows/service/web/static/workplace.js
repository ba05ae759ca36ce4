// The one script of the pages: an answer as it is written. Without it the form loads a page.
"use strict";
(() => {
  const form = document.getElementById("ask");
  if (!form || !window.fetch || !window.TextDecoderStream) return;
  const turns = document.getElementById("turns");
  const field = form.elements.question;
  const button = form.querySelector("button");

  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (!button.disabled) form.requestSubmit();
  });

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const draft = begin(field.value);
    button.disabled = true;
    try {
      const body = new URLSearchParams(new FormData(form));
      const reply = await fetch(form.action, { method: "POST", body, headers: { Accept: "text/event-stream" } });
      if (!(reply.headers.get("Content-Type") || "").startsWith("text/event-stream")) throw new Error(await sentence(reply));
      let ended = false;
      for await (const [name, told] of events(reply.body)) ended = show(draft, name, told) || ended;
      if (!ended) throw new Error(form.dataset.failed);
      field.value = "";
    } catch (error) {
      draft.said.textContent = error.message;
      draft.said.className = "warn";
    } finally {
      button.disabled = false;
      field.focus();
    }
  });

  function begin(question) {
    const article = turns.appendChild(document.createElement("article"));
    article.className = "turn";
    const title = article.appendChild(document.createElement("h2"));
    title.className = "question";
    title.textContent = question;
    const said = article.appendChild(document.createElement("p"));
    said.className = "way";
    said.textContent = "…";
    const text = article.appendChild(document.createElement("div"));
    text.className = "answer";
    article.scrollIntoView({ block: "nearest" });
    return { article, said, text };
  }

  function show(draft, name, told) {
    if (name === "stage") draft.said.textContent = `${told.name} …`;
    if (name === "draft") draft.text.textContent = "replace" in told ? told.replace : draft.text.textContent + told.delta;
    if (name === "error") throw new Error(told.error);
    if (name !== "answer") return false;
    draft.article.outerHTML = told.html; // written by the server, which escapes all text
    const place = document.getElementById("place");
    if (told.place) place.innerHTML = told.place;
    window.htmx?.process(turns);
    window.htmx?.process(place);
    form.elements.session.value = told.session;
    if (told.url) history.replaceState(null, "", told.url);
    return true;
  }

  async function sentence(reply) {
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    return page.querySelector("[role=alert]")?.textContent || form.dataset.failed;
  }

  async function* events(body) {
    let waiting = "";
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      waiting += value;
      const whole = waiting.split("\n\n");
      waiting = whole.pop();
      for (const one of whole) {
        const [, name, data] = one.match(/^event: (.*)\ndata: (.*)$/s);
        yield [name, JSON.parse(data)];
      }
    }
  }
})();
