-- The looks and the search of the reference site: one style sheet and one script, for all pages.
local assets = {}

assets.style = [==[
:root { color-scheme: light dark; --paper: #fff; --ink: #1d2430; --soft: #5c6675; --line: #dde2ea; --box: #f4f6f9; --link: #14569e;
  --k: #14569e; --s: #2b7a3d; --n: #8a3c9e; --c: #6b7685; --mark: #fff1c2; }
@media (prefers-color-scheme: dark) { :root:not([data-theme=light]) { --paper: #14181f; --ink: #e3e8ef; --soft: #9aa5b4; --line: #2c3440;
  --box: #1c222c; --link: #7db4f0; --k: #7db4f0; --s: #8bd09b; --n: #d59be4; --c: #8a95a5; --mark: #4a4020; } }
:root[data-theme=dark] { color-scheme: dark; --paper: #14181f; --ink: #e3e8ef; --soft: #9aa5b4; --line: #2c3440; --box: #1c222c; --link: #7db4f0;
  --k: #7db4f0; --s: #8bd09b; --n: #d59be4; --c: #8a95a5; --mark: #4a4020; }
:root[data-theme=light] { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
header { position: sticky; top: 0; background: var(--paper); border-bottom: 1px solid var(--line); display: flex; flex-wrap: wrap;
  gap: .3rem 1rem; align-items: center; padding: .5rem 1rem; z-index: 1; }
header a { color: var(--ink); text-decoration: none; } header .home { font-weight: 700; }
header nav { display: flex; flex-wrap: wrap; gap: .2rem .9rem; flex: 1 1 auto; font-size: .92rem; }
header input { font: inherit; padding: .25rem .6rem; border: 1px solid var(--line); border-radius: .4rem; background: var(--box);
  color: var(--ink); width: 11rem; max-width: 100%; }
header button { font: inherit; border: 1px solid var(--line); border-radius: .4rem; background: var(--box); color: var(--ink); padding: .2rem .6rem; cursor: pointer; }
main { max-width: 54rem; margin: 0 auto; padding: 1rem 1rem 4rem; }
a { color: var(--link); } h1 { font-size: 1.6rem; line-height: 1.25; overflow-wrap: anywhere; } h2 { font-size: 1.2rem; margin-top: 2rem; } h3 { font-size: 1.03rem; }
pre { background: var(--box); border: 1px solid var(--line); border-radius: .4rem; padding: .6rem .8rem; overflow-x: auto; font-size: .88rem; line-height: 1.4; }
code, pre, .sig { font-family: ui-monospace, "DejaVu Sans Mono", monospace; } code { font-size: .92em; background: var(--box); padding: 0 .2em; border-radius: .2em; }
pre code { background: none; padding: 0; } .sig { font-weight: 600; overflow-wrap: anywhere; padding-left: 2rem; text-indent: -2rem; margin-top: 1.2rem; }
.out { color: var(--soft); } .soft { color: var(--soft); } .k { color: var(--k); } .s { color: var(--s); } .n { color: var(--n); } .c { color: var(--c); }
.wide { overflow-x: auto; } table { border-collapse: collapse; } td, th { border-bottom: 1px solid var(--line); padding: .25rem .8rem .25rem 0; text-align: left; vertical-align: top; }
dl.list { display: grid; grid-template-columns: minmax(9rem, max-content) 1fr; gap: .15rem 1rem; } dl.list dt { overflow-wrap: anywhere; } dl.list dd { margin: 0; color: var(--soft); }
dl.facts { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; } dl.facts dt { color: var(--soft); } dl.facts dd { margin: 0; }
details { margin: .4rem 0; } summary { cursor: pointer; color: var(--link); } img, svg { max-width: 100%; height: auto; border-radius: .4rem; }
#found { list-style: none; padding: 0; } #found li { margin: .5rem 0; } mark { background: var(--mark); color: inherit; }
.b { font-weight: 700; } .f { opacity: .65; } .red { color: #c4342b; } .green { color: #2b7a3d; } .yellow { color: #a06a00; } .blue { color: #2b62c4; } .magenta { color: #8a3c9e; } .cyan { color: #1b7f8c; }
@media (max-width: 40rem) { body { font-size: 15px; } dl.list { grid-template-columns: 1fr; } dl.list dd { margin-bottom: .4rem; }
  header { position: static; } header .home { order: -2; flex: 1 0 auto; } header button { order: -1; } header nav { flex-basis: 100%; } header input { width: 100%; } }
@media print { header { display: none; } main { max-width: none; padding: 0; } }
]==]

-- A hit counts more in a title than in a sentence, and there more than in the text; all words must be there.
assets.script = [==[
"use strict";
(function () {
  var root = document.documentElement, button = document.getElementById("theme"), key = "tycho-theme";
  function stored() { try { return localStorage.getItem(key); } catch (e) { return null; } }
  if (stored()) root.setAttribute("data-theme", stored());
  button.addEventListener("click", function () {
    var dark = root.getAttribute("data-theme") ? root.getAttribute("data-theme") === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    var next = dark ? "light" : "dark";
    root.setAttribute("data-theme", next);
    try { localStorage.setItem(key, next); } catch (e) { }
  });
  var base = document.body.getAttribute("data-root"), box = document.getElementById("search"), main = document.querySelector("main"), before = null, asking = false;
  function score(row, words) {
    var sum = 0, title = row[0].toLowerCase(), last = title.split(/[.: ]/).pop(), doc = row[3].toLowerCase();
    for (var i = 0; i < words.length; i++) {
      var w = words[i];
      if (last === w || title === w) sum += 20;
      else if (last.indexOf(w) === 0) sum += 9;
      else if (title.indexOf(w) >= 0) sum += 6;
      else if (doc.indexOf(w) >= 0) sum += 3;
      else if (row[4].indexOf(w) >= 0) sum += 1;
      else return 0;
    }
    return sum - title.length / 200;
  }
  function escaped(s) { return s.replace(/[&<>"]/g, function (c) { return "&#" + c.charCodeAt(0) + ";"; }); }
  function search() {
    var words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (before === null) before = main.innerHTML;
    if (!words.length) { main.innerHTML = before; before = null; return; }
    var hits = [];
    for (var i = 0; i < TYCHO_PAGES.length; i++) { var s = score(TYCHO_PAGES[i], words); if (s > 0) hits.push([s, TYCHO_PAGES[i]]); }
    hits.sort(function (a, b) { return b[0] - a[0]; });
    var out = ["<p class=soft>" + hits.length + (hits.length === 1 ? " page" : " pages") + "</p><ul id=found>"];
    for (var k = 0; k < Math.min(hits.length, 60); k++) { var r = hits[k][1];
      out.push("<li><a href=\"" + base + escaped(r[1]) + "\">" + escaped(r[0]) + "</a> <span class=soft>" + escaped(r[2]) + "</span><br>" + escaped(r[3]) + "</li>"); }
    main.innerHTML = out.join("") + "</ul>";
  }
  function begin() {
    if (window.TYCHO_PAGES) return search();
    if (asking) return;
    asking = true;
    var s = document.createElement("script");
    s.src = base + "pages.js"; s.onload = search; document.head.appendChild(s);
  }
  box.addEventListener("input", begin);
  var asked = new URLSearchParams(location.search).get("q");
  if (asked) { box.value = asked; begin(); }
  document.addEventListener("keydown", function (e) {
    if (e.key === "/" && document.activeElement !== box) { e.preventDefault(); box.focus(); }
    if (e.key === "Escape" && document.activeElement === box) { box.value = ""; search(); }
    if (e.key === "Enter" && document.activeElement === box) { var first = document.querySelector("#found a"); if (first) first.click(); }
  });
})();
]==]

return assets
