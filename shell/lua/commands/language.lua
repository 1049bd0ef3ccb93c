-- %lang: which language the prompt speaks.
local language = require "torch.language"
local T = language.text

return {
  {
    name = "lang",
    usage = "%lang [en|zh]",
    doc = "The language of the prompt's own words, of errors' rules and of lessons: English or Chinese; alone it says which.",
    more = "It begins with what LC_ALL, LC_MESSAGES or LANG ask for, Chinese where they begin with zh. To keep a choice,\n" ..
      "write require(\"torch.language\").set \"zh\" into init.lua.",
    example = "%lang zh",
    run = function(args, session)
      if args ~= "" and not language.names[args] then return T("en or zh, not %s"):format(args) end
      if args ~= "" then
        language.set(args)
        local run = package.loaded["shell.lesson.run"]
        if run then run.speak() end
      end
      session.say(T"the prompt speaks English")
    end,
  },
}
