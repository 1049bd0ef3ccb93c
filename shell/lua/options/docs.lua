-- `tycho --docs DIR`: the reference as a site that works from a disk.
return function(directory)
  if not directory or directory == "" then
    io.stderr:write "tycho: --docs wants a directory\n"
    return 1
  end
  local site, assets = require "shell.docs.site", require "shell.docs.assets"
  local pages = site.pages()
  local made = {}
  local function write(path, text)
    local folder = path:match "^(.*)/" or "."
    if not made[folder] then os.execute("mkdir -p '" .. (directory .. "/" .. folder):gsub("'", "'\\''") .. "'") end
    made[folder] = true
    local file = assert(io.open(directory .. "/" .. path, "wb"))
    assert(file:write(text))
    assert(file:close())
  end
  local ok, message = pcall(function()
    for _, page in ipairs(pages) do write(page.path, site.file(page)) end
    write("pages.js", site.index(pages))
    write("style.css", assets.style)
    write("site.js", assets.script)
  end)
  if not ok then
    io.stderr:write("tycho: ", tostring(message), "\n")
    return 1
  end
  print(("%d pages: open %s/index.html"):format(#pages, directory))
  return 0
end
