-- %record: the session as an HTML page, with its colours and plots. The file is whole after every entry.
local record = {}

local style = [[
<style>
:root { color-scheme: light dark; --paper: #fff; --ink: #1d2430; --soft: #5c6675; --box: #f4f6f9; --k: #14569e; --s: #2b7a3d; --n: #8a3c9e; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181f; --ink: #e3e8ef; --soft: #9aa5b4; --box: #1c222c; --k: #7db4f0; --s: #8bd09b; --n: #d59be4; } }
body { background: var(--paper); color: var(--ink); max-width: 60rem; margin: 1rem auto; padding: 0 1rem; font-family: system-ui, sans-serif; }
pre { font-family: ui-monospace, "DejaVu Sans Mono", monospace; line-height: 1.35; overflow-x: auto; margin: 0 0 .3rem; }
pre.in { background: var(--box); padding: .4rem .6rem; border-radius: .4rem; margin-top: 1rem; } pre.out { padding: 0 .6rem; }
.p { color: var(--soft); } .k { color: var(--k); } .s { color: var(--s); } .n { color: var(--n); } .c { color: var(--soft); }
.b { font-weight: 700; } .f { opacity: .65; } .i { background: #fff1c2; color: #000; } .red { color: #c4342b; } .green { color: #2b7a3d; }
.yellow { color: #a06a00; } .blue { color: #2b62c4; } .magenta { color: #8a3c9e; } .cyan { color: #1b7f8c; }
svg, img { max-width: 100%; border-radius: .4rem; } img { image-rendering: pixelated; }
</style>
]]

-- What is written down now: {file=, path=, text=, session=}.
local current

local function write(text)
  if current and not current.file:write(text) then
    local path = current.path
    record.stop()
    error(path .. " takes no more; the record ends", 0)
  end
end

-- What was said, as one block.
local function flush()
  local text = current and current.text
  if not text or text == "" then return end
  current.text = ""
  write('<pre class="out">' .. require("shell.html").terminal((text:gsub("\n$", ""))) .. "</pre>\n")
end

local sink = {}
function sink.said(text) current.text = current.text .. text end

function sink.entered(text, number)
  flush()
  local html = require "shell.html"
  local lua = not text:find "^%s*[%%?!]"
  write(('<pre class="in"><span class="p">[%d]&gt; </span>%s</pre>\n'):format(number, lua and html.code(text) or html.escape(text)))
end

function sink.drawn(figure)
  flush()
  if figure.svg then return write("<figure>" .. figure.svg() .. "</figure>\n") end
  write(('<figure><img alt="" src="data:image/png;base64,%s"></figure>\n'):format(torch._base64(figure.png())))
end

function sink.ended()
  if not current then return end  -- by this entry
  flush()
  current.file:flush()
end

function record.stop()
  if not current then return end
  local last = current
  current = nil
  require("shell.tap").close(last.session, sink)
  last.file:close()
end

local function start(path, force, session)
  local there = io.open(path, "rb")
  if there then
    there:close()
    if not force then error(("%s is there already; %%record -f %s writes over it"):format(path, path), 0) end
  end
  local file, why = io.open(path, "wb")
  if not file then error(why, 0) end
  record.stop()
  current = {file = file, path = path, text = "", session = session}
  local html, native = require "shell.html", require "shell.native"
  write(('<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">\n<title>%s</title>\n%s</head>\n<body><p class="p">A session of %s with tycho %s.</p>\n')
    :format(html.escape(path:match "[^/]*$"), style, os.date "%Y-%m-%d %H:%M", native.version))
  file:flush()
  require("shell.tap").open(session, sink)
end

return {
  {
    name = "record", usage = "%record [-f] FILE, %record off", example = "%record lesson.html",
    doc = "Write entries and what they show as a page for a browser, with colours and plots.",
    more = "The page is whole after every entry, so it can be looked at while it grows; what\n" ..
      "other programs print is not in it. -f writes over a file that is there.",
    run = function(args, session)
      local columns = require "shell.columns"
      if args == "" then
        return session.say(current and ("the session is written to %s"):format(columns.plain(current.path)) or "nothing is recorded")
      end
      if args == "off" then
        if not current then return session.say "nothing was recorded" end
        local path = current.path
        record.stop()
        return session.say(("%s is whole"):format(columns.plain(path)))
      end
      local force, path = args:match "^(%-f%s+)(.+)$"
      path = path or args
      if path:find "^%-" then return "it is a file's name, or off" end
      start(path, force ~= nil, session)
      session.say(("the session is written to %s; %%record off ends it"):format(columns.plain(path)))
    end,
  },
}
