-- What the keys do while an entry is typed, from the table that binds them.
local native = require "shell.native"
local T = require("torch.language").text

return {
  {
    name = "%keys",
    usage = "%keys [text]",
    doc = "The keys of the line editor: all of them, or those that have to do with a word.",
    example = "%keys history",
    run = function(args, session)
      local rows, lines, widest = {}, {}, 0
      for _, row in ipairs(native.keys()) do
        if (row.keys .. " " .. row.does .. " " .. T(row.does)):lower():find(args:lower(), 1, true) then
          rows[#rows + 1] = row
          widest = math.max(widest, #row.keys)
        end
      end
      for i, row in ipairs(rows) do lines[i] = ("%-" .. widest + 2 .. "s%s"):format(row.keys, T(row.does)) end
      if #lines == 0 then return T('no key has to do with "%s"'):format(args) end
      session.say(table.concat(lines, "\n"))
    end,
  },
}
