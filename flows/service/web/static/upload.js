// Uploads with a bar, and by drag and drop. Without it the form sends what was chosen.
"use strict";
(() => {
  const form = document.getElementById("upload");
  if (!form || !window.XMLHttpRequest) return;
  const line = form.querySelector(".sending");
  const [bar, label] = [line.querySelector("progress"), line.querySelector("span")];
  const button = form.querySelector("button");
  const size = (bytes) => `${(bytes / 1e6).toLocaleString(document.documentElement.lang, { maximumFractionDigits: 1 })} MB`;

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const chosen = [...form.elements.files.files, ...form.elements.folder.files];
    send(chosen.map((file) => [file, file.webkitRelativePath || file.name]));
  });

  for (const name of ["dragenter", "dragover"]) form.addEventListener(name, (event) => { event.preventDefault(); form.classList.add("over"); });
  for (const name of ["dragleave", "drop"]) form.addEventListener(name, () => form.classList.remove("over"));
  form.addEventListener("drop", async (event) => {
    event.preventDefault();
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    const files = entries.length ? (await Promise.all(entries.map(filesIn))).flat() : [...event.dataTransfer.files].map((file) => [file, file.name]);
    send(files);
  });

  async function filesIn(entry) {
    if (entry.isFile) return [[await new Promise((done, fail) => entry.file(done, fail)), entry.fullPath.slice(1)]];
    const reader = entry.createReader();
    const children = [];
    for (;;) {
      const batch = await new Promise((done, fail) => reader.readEntries(done, fail)); // some entries a call, none at the end
      if (!batch.length) return (await Promise.all(children.map(filesIn))).flat();
      children.push(...batch);
    }
  }

  function send(files) {
    const total = files.reduce((sum, [file]) => sum + file.size, 0);
    if (total > Number(form.dataset.most)) return tell(form.dataset.toolarge);
    const body = new FormData();
    body.append("token", form.elements.token.value);
    if (form.elements.replace.checked) body.append("replace", "1");
    for (const [file, name] of files) body.append("files", file, name);
    const request = new XMLHttpRequest();
    request.upload.onprogress = ({ loaded, total: all }) => { bar.max = all; bar.value = loaded; tell(`${size(loaded)} / ${size(all)}`, false); };
    request.onload = () => {
      if (request.status === 200) return location.assign(request.responseURL);
      const page = new DOMParser().parseFromString(request.responseText, "text/html");
      tell(page.querySelector("[role=alert]")?.textContent || form.dataset.failed);
    };
    request.onerror = () => tell(form.dataset.failed);
    bar.value = 0;
    button.disabled = true;
    request.open("POST", form.action);
    request.send(body);
  }

  function tell(sentence, ended = true) {
    line.hidden = false;
    bar.hidden = ended;
    line.classList.toggle("warn", ended);
    label.textContent = sentence;
    if (ended) button.disabled = false;
  }
})();
