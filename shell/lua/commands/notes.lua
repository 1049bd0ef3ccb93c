-- %ok: the notes' switches. Without arguments all codes; with a code the line that it was last said
-- about is accepted; `all`, `on` and `error` switch the code itself.
local notes = require "torch.notes"
local T = require("torch.language").text

return {
  {
    name = "%ok", usage = "%ok [CODE [all|on|error]]", example = "%ok B2",
    doc = "Accepts the line of the last note of this code; `all` switches the code off, `on` on again, `error` makes it an error. Alone: the list of notes.",
    run = function(args, session)
      local code, what = args:match("^(%S*)%s*(%S*)$")
      if not code then return T"one code, and then all, on or error" end
      if code == "" then
        local columns, states = require "shell.columns", notes.switch()
        for line in tostring(states):gmatch("[^\n]+") do
          local head, doc = line:match("^(%S+%s+%S+%s+)(.*)$")
          session.say(head .. table.concat(columns.wrap(doc, columns.window() - #head), "\n" .. (" "):rep(#head)))
        end
        return
      end
      code = code:upper()
      if code ~= "ALL" and not notes.catalogue[code] then
        local codes = {}
        for name in pairs(notes.catalogue) do codes[#codes + 1] = name end
        table.sort(codes)
        return T("there is no note %s; there are %s"):format(code, table.concat(codes, " "))
      end
      if code == "ALL" then code = "all" end
      if what == "all" or what == "off" or code == "all" and what == "" then
        notes.switch(code, "off")
        session.say(T("notes %s are off  (%%ok %s on)"):format(code, code))
      elseif what == "on" or what == "error" then
        notes.switch(code, what)
        session.say(T("notes %s: %s"):format(code, what))
      elseif what == "" then
        local text = notes.accept(code)
        session.say(text and T("accepted for %s: %s"):format(code, text) or T("no note %s was said yet; %%ok %s all switches it off"):format(code, code))
      else
        return T("all, on or error, not %s"):format(what)
      end
    end,
  },
}
