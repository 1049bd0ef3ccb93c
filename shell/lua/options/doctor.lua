-- `tycho doctor`: what this program finds on the machine, and what to install for the rest.
return function(...)
  if select("#", ...) > 0 then
    io.stderr:write("tycho: doctor takes no arguments\n")
    return 1
  end
  local rows = require("torch").cuda._doctor()
  local wide = 0
  for _, row in ipairs(rows) do wide = math.max(wide, #row[1]) end
  for _, row in ipairs(rows) do
    print(row[1] .. (" "):rep(wide - #row[1] + 2) .. row[2])
    if row[3] then print((" "):rep(wide + 2) .. "-> " .. row[3]) end
  end
end
