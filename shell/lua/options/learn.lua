-- `tycho learn [NAME]`: the prompt opens with the list of lessons, or in one.
return function(...)
  require("shell.session").first = table.concat({"%learn", ...}, " ")
  return true
end
