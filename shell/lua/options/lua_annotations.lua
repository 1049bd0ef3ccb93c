-- `tycho --lua-annotations DIR`: definition files for the Lua language server.
return function(directory)
  if not directory or directory == "" then
    io.stderr:write "tycho: --lua-annotations wants a directory\n"
    return 1
  end
  local ok, paths = pcall(require("shell.annotations").write, directory)
  if not ok then
    io.stderr:write("tycho: ", tostring(paths), "\n")
    return 1
  end
  print(("%d files for editors: set \"Lua.workspace.library\": [\"%s\"]"):format(#paths, directory))
  return 0
end
