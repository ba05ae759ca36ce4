"""Links into the UI at `/` lead to where they point after a login; the UI at `/v2` asks by itself.

Prefect's page at `/login` goes on to `redirect`, but nothing leads there: without a login each page stays empty.
"""

from __future__ import annotations

from pathlib import Path

from storage import files

SCRIPT = """<script>
(() => {
  if (location.pathname.startsWith("/login")) return
  const kept = localStorage.getItem("prefect-password")
  fetch("/api/admin/version", {headers: kept ? {Authorization: `Basic ${kept}`} : {}}).then(answer => {
    if (answer.status !== 401) return
    localStorage.removeItem("prefect-password")
    location.replace("/login?redirect=" + encodeURIComponent(location.pathname + location.search))
  })
})()
</script>
"""


def ask_first(page: Path) -> None:
    """Have the copy of the UI's page lead to the login; twice is harmless."""
    try:
        text = page.read_text("utf-8")
    except FileNotFoundError:  # the UI is off
        return
    if SCRIPT not in text:
        files.write(page, text.replace("<head>", f"<head>\n{SCRIPT}", 1).encode())
