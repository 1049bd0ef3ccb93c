-- `tycho kernel -f FILE` runs the kernel of a notebook; `tycho kernel --install` tells Jupyter that there is one.
local usage = [[
usage: tycho kernel --install [--user | --prefix DIR] [--name NAME]
       tycho kernel -f FILE
--install registers this program with Jupyter, for you (--user, as without either) or below
DIR/share/jupyter (an environment's directory); notebooks then offer the kernel "Tycho". NAME is
what `jupyter notebook --kernel NAME` calls it: tycho. With -f the kernel runs, and talks to whoever
wrote FILE, a connection file of Jupyter's.]]

local function wrong(text)
  io.stderr:write("tycho: ", text, "\n", usage, "\n")
  return 1
end

return function(...)
  local words, o, i = {...}, {}, 1
  while i <= #words do
    local word = words[i]
    if word == "--install" or word == "--user" then
      o[word:sub(3)] = true
    elseif word == "-f" or word == "--prefix" or word == "--name" then
      i = i + 1
      if not words[i] then return wrong(word .. " wants a value behind it") end
      o[word:match "%a+"] = words[i]
    elseif word == "--help" or word == "-h" then
      print(usage)
      return 0
    else
      return wrong(('no option "%s" of tycho kernel'):format(word))
    end
    i = i + 1
  end
  if o.install and o.f then return wrong "--install and -f are two things: one registers the kernel, the other runs it" end
  if not o.install and (o.user or o.prefix or o.name) then return wrong "--user, --prefix and --name belong to --install" end
  if o.user and o.prefix then return wrong "--user and --prefix are two places" end
  if o.install then return require("shell.kernel.install")(o) end
  if not o.f then return wrong "tycho kernel wants --install, or -f and a connection file" end
  return require("shell.kernel").main(o.f)
end
