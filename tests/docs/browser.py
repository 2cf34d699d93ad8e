#!/usr/bin/env python3
"""Opens each page of the site in a headless browser, at nine widths, light and dark: browser.py FOLDER

Fails if a page is wider than the window, if the text or the contents are cut, or if the page has no heading. FOLDER has the pages;
FERRY_BROWSER names the browser (chromium). The last line is `N passed, N failed, N skipped`.
"""

import functools
import html
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading

WIDTHS = (360, 480, 640, 768, 1024, 1152, 1280, 1440, 1920)
# Runs in the browser: loads each page in a frame of each width, and writes what is wrong into the document.
HARNESS = """<!doctype html><iframe id=frame style="border:0;height:900px"></iframe><pre id=result></pre><script>
const frame = document.getElementById("frame"), faults = [];
const load = page => new Promise(done => { frame.onload = done; frame.src = page; });
// What is cut: wider than it is shown, and without a bar to scroll it.
const isCut = (e, w) => e.scrollWidth > e.clientWidth + 1 && !["auto", "scroll"].includes(w.getComputedStyle(e).overflowX);
(async () => {
  let count = 0;
  for (const page of PAGES) {
    frame.style.width = "1280px";
    await load(page);
    const w = frame.contentWindow, d = w.document;
    for (const theme of ["light", "dark"]) {
      d.body.dataset.theme = theme;
      for (const width of WIDTHS) {
        frame.style.width = width + "px";
        const wrong = why => faults.push(`${page}, ${width} px, ${theme}: ${why}`);
        const root = d.documentElement, content = d.querySelector("article"), toc = d.querySelector(".toc-sticky");
        if (root.scrollWidth > width) wrong(`the page is ${root.scrollWidth} px wide`);
        if (!content || !content.querySelector("h1")) { wrong("no heading"); continue; }
        const box = content.getBoundingClientRect();
        if (box.left < 0 || box.right > width + 1) wrong(`the text ends at ${Math.round(box.right)} px`);
        for (const p of content.querySelectorAll("p, li, h1, h2, h3")) if (isCut(p, w)) { wrong(`cut: ${p.textContent.slice(0, 40)}`); break; }
        if (toc && toc.offsetParent && width >= 1440 && toc.getBoundingClientRect().right > width + 1) wrong("the contents are cut");
        const [text, paper] = [w.getComputedStyle(content).color, w.getComputedStyle(d.body).backgroundColor];
        if (text === paper) wrong("the text has the colour of the page");
        ++count;
      }
    }
  }
  document.getElementById("result").textContent = JSON.stringify({count, faults});
})();
</script>"""


class Handler(http.server.SimpleHTTPRequestHandler):
    harness = b""

    def do_GET(self):
        if self.path != "/harness":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(self.harness)

    def log_message(self, *_):
        pass


def main():
    browser = os.environ.get("FERRY_BROWSER") or shutil.which("chromium")
    if not browser:
        print("SKIPPED: no browser: install chromium, or set FERRY_BROWSER\n0 passed, 0 failed, 1 skipped")
        return 0
    folder = pathlib.Path(sys.argv[1])
    pages = sorted(str(p.relative_to(folder)) for p in folder.rglob("*.html"))
    pages = [p for p in pages if not p.startswith(("api/", "files/", "search.html")) or p == "api/index.html"] or sys.exit("no pages")
    Handler.harness = HARNESS.replace("PAGES", json.dumps(pages)).replace("WIDTHS", json.dumps(WIDTHS)).encode()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=2000,1000", "--virtual-time-budget=600000",
               "--dump-dom", f"http://127.0.0.1:{server.server_port}/harness"]  # fmt: skip
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
    found = re.search(r'<pre id="result">(\{.*?\})</pre>', done.stdout, re.S)
    if not found:
        sys.exit(f"{browser} returned no result, status {done.returncode}:\n{done.stderr[-2000:]}")
    result = json.loads(html.unescape(found[1]))
    for fault in result["faults"]:
        print(fault)
    print(f"{len(pages)} pages, {len(WIDTHS)} widths, light and dark\n{result['count'] - len(result['faults'])} passed, {len(result['faults'])} failed, 0 skipped")
    return bool(result["faults"]) or result["count"] == 0


if __name__ == "__main__":
    sys.exit(main())
