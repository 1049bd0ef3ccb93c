-- Commands of the evaluator itself.
local T = require("torch.language").text
return {
  {
    name = "%locals",
    usage = "%locals on|off",
    doc = "Keep names declared with local for the session, or run entries as plain Lua.",
    run = function(args, session)
      if args == "on" or args == "off" then
        session.options.locals = args == "on"
      elseif args ~= "" then
        error(T"%locals wants on or off", 0)
      end
      session.say(session.options.locals and T"locals are kept for the session" or T"locals are those of plain Lua")
    end,
  },
  {
    name = "%quit",
    usage = "%quit",
    doc = "End the session, or the lesson.",
    run = function(_, session)
      if session.mode and session.mode.cancel then
        session.mode.cancel()
      elseif session.mode then
        session.mode = nil
      else
        session.ended = true
      end
    end,
  },
}
